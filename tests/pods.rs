//! Pods, end to end: containers of real images on a daemon of their own, with
//! a network namespace of its own, looked at from outside and from inside.

mod authorization;
mod exec;
mod health;
mod hostile_images;
mod image_content;
mod limits;
mod network;
mod pid1;
mod pod_environment;
mod pod_lifecycle;
mod pod_observation;
mod pool;
mod restart_policy;
mod runtime_conventions;
mod sandbox;
mod spec_validation;
mod terminals;
mod volumes;

use strata_testkit::images::busybox_layout;
use strata_testkit::{Daemon, NetworkNamespace, Node, TEST_TIMEOUT, wait_for};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// A daemon in a network of its own, and an image of busybox.
pub(crate) struct World {
    pub(crate) node: Node,
    pub(crate) image: String,
    pub(crate) daemon: Daemon,
    network: NetworkNamespace,
}

pub(crate) async fn world() -> World {
    world_with("").await
}

async fn world_with(config: &str) -> World {
    let network = NetworkNamespace::new();
    let daemon = Daemon::build(STRATA)
        .config(config)
        .within(&network)
        .start()
        .await;
    let node = daemon.node().await;
    let image = busybox_layout(&daemon.scratch());
    World {
        node,
        image,
        daemon,
        network,
    }
}

/// Waits until a pod has written a line.
async fn logged(node: &Node, pod: &str, line: &str) {
    wait_for("a line", TEST_TIMEOUT, async || {
        let lines = node.pod_log(pod).await.map_err(|error| error.to_string())?;
        match lines.iter().any(|known| known == line) {
            true => Ok(()),
            false => Err(format!("{lines:?}")),
        }
    })
    .await;
}
