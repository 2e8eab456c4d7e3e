//! Virtual machines that boot our own node.

use std::time::Instant;

use futures_util::FutureExt as _;
use strata_machines::{Power, Provider as _, ProviderError, Qemu, QemuConfig};
use strata_testkit::guest::Guest;
use strata_testkit::{PATIENCE, skip, wait_for};

use crate::conformance::{self, target};
use crate::world::World;
use crate::{STRATA, tell};

fn driver(world: &World) -> Qemu {
    let config = QemuConfig {
        folder: world.0.daemon.scratch().join("machines"),
        kernel_folder: None,
        program: STRATA.into(),
        server: None,
    };
    Qemu::new(world.node(), config)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_of_a_virtual_machine_joins_and_runs_cells() {
    if let Some(why) = Guest::lacks() {
        return skip(why);
    }
    let world = World::start().await;
    let qemu = driver(&world);
    let mut ours = target(&qemu, "0a1b2c3d", "m1");
    ours.spec.disk = Some(4);
    let begin = Instant::now();
    let boot = world.boot("m1").await;
    qemu.boot(&ours, &boot).await.unwrap();
    tell(&format!("qemu: image built and booted {:.2?}", begin.elapsed()));
    let up = qemu.wait(&ours).await.unwrap();
    let node = world.node_is_ready("m1").await;
    tell(&format!("qemu: ready {:.2?}", begin.elapsed()));
    assert!(node.contains("zone"), "{node}");
}
