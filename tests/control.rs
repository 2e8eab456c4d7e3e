//! The control plane, end to end: a server and several nodes, each in a
//! network of its own, driven by the published APIs and looked at from the
//! nodes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod address_reuse;
mod drain;
mod empty_store;
mod etcd;
mod instance_lifecycle;
mod network;
mod node_loss;
mod pool;
mod published_nodes;
mod python;
mod request_validation;
mod roles;
mod server_kills;

use std::time::Duration;

use strata_testkit::cluster::Cluster;
use strata_testkit::{NetworkNamespace, wait_for};

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
/// How long anything may take on a machine that is busy with other tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// A server with a short lease and this many nodes.
async fn cluster(nodes: u8) -> Cluster {
    Cluster::start(STRATA, nodes).await
}

/// What a GET gives.
fn got(network: &NetworkNamespace, url: &str) -> Result<String, String> {
    let output = network.output(["curl", "-sf", "-m", "2", url]);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{url}: {output:?}")),
    }
}

/// Waits until a GET gives this.
async fn answers(network: &NetworkNamespace, url: &str, text: &str) {
    wait_for("an answer", TEST_TIMEOUT, async || {
        let said = got(network, url)?;
        if said == text { Ok(()) } else { Err(said) }
    })
    .await;
}
