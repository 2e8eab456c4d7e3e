//! Operations that are over and did not come to an end of their own: abandoned,
//! or lost with their store. They do not block the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use strata_clusters::sim::Fault;
use strata_server::core::Work;
use strata_server::reconcile::look_at_clusters;
use strata_types::cluster::ClusterStatus;
use strata_workflow::{Filter, OperationId, State};

use crate::cluster_world::{ClusterWorld, NAME, NEXT};
use crate::world::admin;

/// Gives the pool of a cluster so many machines.
async fn scale(world: &ClusterWorld, count: u32) -> OperationId {
    let sizes = vec![("w".into(), count)];
    let asked = world.clusters.scale_pools(&admin(), NAME, sizes).await;
    asked.unwrap()
}

/// A change of pools that fails, and whose join cannot be undone.
async fn stuck(world: &ClusterWorld) -> OperationId {
    world
        .kubernetes
        .set_faults(|call, machine| match (call, machine) {
            ("join", "m4") | ("remove_member", _) => Fault::Refused,
            _ => Fault::None,
        });
    let grown = scale(world, 3).await;
    let ended = world.wait(grown).await;
    assert!(ended.holds_claims(), "{ended:?}");
    world.kubernetes.clear_faults();
    grown
}

async fn look(world: &ClusterWorld) {
    for _ in 0..3 {
        look_at_clusters(&world.clusters).await;
        for one in world.operations.list(&Filter::default()).await.unwrap() {
            drop(world.wait(one.id).await);
        }
    }
}

/// Marks a cluster as used by an operation of which there is no record.
async fn mark(world: &ClusterWorld, work: serde_json::Value) {
    let lost = uuid::Uuid::now_v7().to_string();
    let marked = |record: &mut serde_json::Value| {
        record["scaledFrom"] = match work["is"] == "scaling" {
            true => record["spec"]["pools"].clone(),
            false => json!([]),
        };
        record["work"] = work;
        record["operation"] = lost.into();
    };
    world.rewrite(NAME, marked).await;
}

/// All that can be under way but building it and deleting it.
fn marks() -> [serde_json::Value; 4] {
    [
        json!({ "is": "scaling" }),
        json!({ "is": "healing" }),
        json!({ "is": "upgrading", "to": NEXT.to_string() }),
        json!({ "is": "restoring" }),
    ]
}

#[tokio::test(start_paused = true)]
async fn next_change_runs_after_an_abandoned_operation() {
    let world = ClusterWorld::running(5, 1, &[("w", 1)]).await;
    let abandoned = stuck(&world).await;
    world.operations.abandon(abandoned, "test").await.unwrap();
    assert_eq!(world.cluster(NAME).work, Work::Scaling);
    world.completes(scale(&world, 2).await).await;
    look(&world).await;
    world.assert_whole(NAME);
    assert_eq!(world.of_pool(NAME, "w").len(), 2);
    world.delete(NAME).await;
}

#[tokio::test(start_paused = true)]
async fn cluster_change_does_not_wait_for_leftovers() {
    let world = ClusterWorld::running(5, 1, &[("w", 1)]).await;
    look_at_clusters(&world.clusters).await;
    let before = stuck(&world).await;
    let next = scale(&world, 2).await;
    let ended = world.operations.get(before).await.unwrap();
    assert!(!ended.holds_claims(), "{ended:?}");
    world.completes(next).await;
    look(&world).await;
    world.assert_whole(NAME);
    assert_eq!(world.of_pool(NAME, "w").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn stale_operation_does_not_block_the_cluster() {
    for work in marks() {
        let world = ClusterWorld::running(4, 1, &[("w", 1)]).await;
        mark(&world, work.clone()).await;
        // Not even for a moment: the operation that runs has the cluster to
        // itself.
        match work["is"] == "scaling" {
            true => world.completes(world.upgrade().await).await,
            false => world.completes(scale(&world, 2).await).await,
        }
        world.assert_whole(NAME);
        mark(&world, work).await;
        world.delete(NAME).await;
    }
}

#[tokio::test(start_paused = true)]
async fn stale_operation_is_cleared_by_the_reconciler() {
    for work in marks() {
        let world = ClusterWorld::running(4, 1, &[("w", 1)]).await;
        mark(&world, work).await;
        look(&world).await;
        let now = world.cluster(NAME);
        assert_eq!(now.work, Work::Idle);
        assert!(now.failure.is_some(), "it is told: {now:?}");
        let told = world.clusters.get(NAME).unwrap();
        assert_eq!(told.status, ClusterStatus::Degraded);
        world.completes(scale(&world, 2).await).await;
        world.assert_whole(NAME);
    }
}

/// One that runs keeps its mark, however often the reconciler runs.
#[tokio::test(start_paused = true)]
async fn running_operation_is_not_cleared_as_stale() {
    let world = ClusterWorld::running(4, 1, &[("w", 1)]).await;
    world
        .kubernetes
        .set_faults(|call, _| match call == "upgrade" {
            true => Fault::CrashBefore,
            false => Fault::None,
        });
    let upgrade = world.upgrade().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    look_at_clusters(&world.clusters).await;
    assert!(matches!(world.cluster(NAME).work, Work::Upgrading { .. }));
    world.kubernetes.clear_faults();
    world.restart().await;
    world.completes(upgrade).await;
    world.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn cluster_with_a_lost_creation_can_be_deleted() {
    let world = ClusterWorld::new(3).await;
    world.kubernetes.set_faults(|call, _| match call == "join" {
        true => Fault::CrashBefore,
        false => Fault::None,
    });
    let begun = world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.close().await;
    assert_eq!(world.operations.delete_unfinished().await.unwrap(), 1);
    assert!(world.operations.get(begun).await.is_err());
    world.kubernetes.clear_faults();
    world.open().await;
    look_at_clusters(&world.clusters).await;
    assert_eq!(world.cluster(NAME).work, Work::Idle);
    // Its control plane is there: what is missing comes.
    look(&world).await;
    tokio::time::sleep(Duration::from_secs(150)).await;
    world.delete(NAME).await;
}

#[tokio::test(start_paused = true)]
async fn cluster_whose_creation_never_started_is_in_error() {
    let world = ClusterWorld::new(2).await;
    world.kubernetes.set_faults(|call, _| match call == "init" {
        true => Fault::CrashBefore,
        false => Fault::None,
    });
    world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.close().await;
    assert_eq!(world.operations.delete_unfinished().await.unwrap(), 1);
    world.kubernetes.clear_faults();
    world.open().await;
    look(&world).await;
    let told = world.clusters.get(NAME).unwrap();
    assert_eq!(told.status, ClusterStatus::Error);
    assert!(
        told.message.ends_with("strata cluster delete c"),
        "{told:?}"
    );
    world.delete(NAME).await;
}

/// What is cancelled for a deletion and cannot be undone then: the deletion
/// need not be requested again.
#[tokio::test(start_paused = true)]
async fn cluster_deletion_does_not_wait_for_leftovers() {
    let world = ClusterWorld::running(4, 1, &[("w", 1)]).await;
    let refuses = Arc::new(AtomicBool::new(false));
    let told = refuses.clone();
    world.kubernetes.set_faults(move |call, machine| {
        match (call, machine, told.load(Ordering::SeqCst)) {
            ("ready", "m4", _) => Fault::Before,
            ("remove_member", _, true) => Fault::Refused,
            _ => Fault::None,
        }
    });
    let grown = scale(&world, 3).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    refuses.store(true, Ordering::SeqCst);
    let deleted = world.clusters.delete(&admin(), NAME).await.unwrap();
    let ended = world.wait(grown).await;
    assert!(ended.holds_claims(), "{ended:?}");
    let waits = world.operations.get(deleted).await.unwrap();
    assert!(matches!(waits.state, State::Scheduled), "{waits:?}");
    look_at_clusters(&world.clusters).await;
    world.completes(deleted).await;
    world.assert_nothing();
}
