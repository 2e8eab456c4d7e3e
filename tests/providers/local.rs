//! Nested nodes.

use std::time::Instant;

use futures_util::FutureExt as _;
use strata_machines::{Local, Power, Provider as _, ProviderError};
use strata_testkit::{TEST_TIMEOUT, wait_for};

use crate::providers::conformance::{self, target};
use crate::providers::tell;
use crate::providers::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn machines_inside_hold_the_promises() {
    let world = World::start().await;
    let local = Local::new(world.node());
    let boots = || world.boot("m1").boxed();
    conformance::holds_its_promises(&local, &boots).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_for_machines_inside_can_be_dropped() {
    let world = World::start().await;
    let local = Local::new(world.node());
    let boots = || world.boot("m2").boxed();
    conformance::copes_with_dropped_calls(&local, &boots).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_of_a_machine_inside_joins_and_runs_cells() {
    let world = World::start().await;
    let local = Local::new(world.node());
    let ours = target(&local, "0a1b2c3d", "m1");
    let boot = world.boot("m1").await;
    let begin = Instant::now();
    local.boot(&ours, &boot).await.unwrap();
    let up = local.wait(&ours).await.unwrap();
    let booted = begin.elapsed();
    let node = world.node_is_ready("m1").await;
    tell(&format!(
        "local: booted {booted:.2?}, ready {:.2?}",
        begin.elapsed()
    ));
    // Its labels come along, and the tag of the provider does not.
    assert!(node.contains("zone"), "{node}");
    assert!(!node.contains("strata.dev/tag"), "{node}");
    let address = up.address.unwrap();
    drop(world.runs_something(&address).await);

    // Off and on, it is the same node, and needs no other token.
    local.power(&ours, Power::Cycle).await.unwrap();
    world.node_is_ready("m1").await;
    local.wipe(&ours).await.unwrap();
    assert!(world.0.node().await.machines().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_something_else_is_taken() {
    let world = World::start().await;
    let local = Local::new(world.node());
    let node = world.0.node().await;
    node.spawn(strata_testkit::machines::machine("m1"))
        .await
        .unwrap();
    let ours = target(&local, "0a1b2c3d", "m1");
    let error = local
        .boot(&ours, &world.boot("m1").await)
        .await
        .unwrap_err();
    assert!(matches!(error, ProviderError::Taken(_)), "{error:?}");
    let error = local.power(&ours, Power::Off).await.unwrap_err();
    assert!(matches!(error, ProviderError::Taken(_)), "{error:?}");
    local.wipe(&ours).await.unwrap();
    assert!(node.machine("m1").await.unwrap().running);
}

/// The daemon dies when the machine has joined, and before it could say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_boot_that_the_daemon_did_not_live_to_answer_is_found_again() {
    let mut world = World::start().await;
    let local = Local::new(world.node());
    let ours = target(&local, "0a1b2c3d", "m1");
    let boot = world.boot("m1").await;
    let booting = {
        let (local, ours, boot) = (local.clone(), ours.clone(), boot.clone());
        tokio::spawn(async move { local.boot(&ours, &boot).await })
    };
    let dirs = world.0.daemon.data_dir().join("node/_machines/folders");
    wait_for("the machine to join", TEST_TIMEOUT, async || {
        let all = std::fs::read_dir(&dirs).map_err(|error| error.to_string())?;
        let joined = |dir: std::fs::DirEntry| dir.path().join("lib/strata/identity").exists();
        strata_testkit::holds(all.flatten().any(joined))
    })
    .await;
    world.0.daemon.kill();
    let cut = booting.await.unwrap();
    assert!(
        cut.as_ref().err().is_none_or(ProviderError::is_transient),
        "{cut:?}"
    );
    let gone = local.power_state(&ours).await.unwrap_err();
    assert!(gone.is_transient(), "{gone:?}");
    world.0.daemon.restart().await;
    // The token is used up, so it can only be the machine that was made.
    local.boot(&ours, &boot).await.unwrap();
    local.wait(&ours).await.unwrap();
    world.node_is_ready("m1").await;
}
