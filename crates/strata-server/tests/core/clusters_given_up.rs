//! Operations that are over and did not come to an end of their own: given up,
//! or lost with their store. They keep nobody from the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use strata_clusters::sim::Fault;
use strata_server::core::Work;
use strata_server::reconcile::look_at_clusters;
use strata_types::cluster::ClusterStatus;
use strata_workflow::{Filter, OperationId, State};

use crate::clusters_stage::{NAME, NEXT, Stage};
use crate::world::admin;

/// Gives the pool of a cluster so many machines.
async fn scale(stage: &Stage, count: u32) -> OperationId {
    let sizes = vec![("w".into(), count)];
    let asked = stage.clusters.scale_pools(&admin(), NAME, sizes).await;
    asked.unwrap()
}

/// A change of pools that fails, and whose join cannot be undone.
async fn stuck(stage: &Stage) -> OperationId {
    stage
        .kubernetes
        .set_faults(|call, machine| match (call, machine) {
            ("join", "m4") | ("forget", _) => Fault::Refused,
            _ => Fault::None,
        });
    let grown = scale(stage, 3).await;
    let ended = stage.wait(grown).await;
    assert!(ended.holds_claims(), "{ended:?}");
    stage.kubernetes.clear_faults();
    grown
}

async fn look(stage: &Stage) {
    for _ in 0..3 {
        look_at_clusters(&stage.clusters).await;
        for one in stage.operations.list(&Filter::default()).await.unwrap() {
            drop(stage.wait(one.id).await);
        }
    }
}

/// Has a cluster be marked by an operation that nobody knows any more.
async fn mark(stage: &Stage, work: serde_json::Value) {
    let lost = uuid::Uuid::now_v7().to_string();
    let marked = |record: &mut serde_json::Value| {
        record["scaledFrom"] = match work["is"] == "scaling" {
            true => record["spec"]["pools"].clone(),
            false => json!([]),
        };
        record["work"] = work;
        record["operation"] = lost.into();
    };
    stage.rewrite(NAME, marked).await;
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
async fn the_next_wish_is_done_after_one_that_was_given_up() {
    let stage = Stage::running(5, 1, &[("w", 1)]).await;
    let given_up = stuck(&stage).await;
    stage.operations.give_up(given_up, "test").await.unwrap();
    assert_eq!(stage.cluster(NAME).work, Work::Scaling);
    stage.completes(scale(&stage, 2).await).await;
    look(&stage).await;
    stage.assert_whole(NAME);
    assert_eq!(stage.of_pool(NAME, "w").len(), 2);
    stage.delete(NAME).await;
}

#[tokio::test(start_paused = true)]
async fn a_wish_need_not_wait_for_what_cannot_be_undone() {
    let stage = Stage::running(5, 1, &[("w", 1)]).await;
    look_at_clusters(&stage.clusters).await;
    let before = stuck(&stage).await;
    let next = scale(&stage, 2).await;
    let ended = stage.operations.get(before).await.unwrap();
    assert!(!ended.holds_claims(), "{ended:?}");
    stage.completes(next).await;
    look(&stage).await;
    stage.assert_whole(NAME);
    assert_eq!(stage.of_pool(NAME, "w").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_an_operation_that_is_lost_keeps_nobody() {
    for work in marks() {
        let stage = Stage::running(4, 1, &[("w", 1)]).await;
        mark(&stage, work.clone()).await;
        // Not even for a moment: whoever runs has the cluster to itself.
        match work["is"] == "scaling" {
            true => stage.completes(stage.upgrade().await).await,
            false => stage.completes(scale(&stage, 2).await).await,
        }
        stage.assert_whole(NAME);
        mark(&stage, work).await;
        stage.delete(NAME).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_an_operation_that_is_lost_goes_by_itself() {
    for work in marks() {
        let stage = Stage::running(4, 1, &[("w", 1)]).await;
        mark(&stage, work).await;
        look(&stage).await;
        let now = stage.cluster(NAME);
        assert_eq!(now.work, Work::Idle);
        assert!(now.failure.is_some(), "it is told: {now:?}");
        let told = stage.clusters.get(NAME).unwrap();
        assert_eq!(told.status, ClusterStatus::Degraded);
        stage.completes(scale(&stage, 2).await).await;
        stage.assert_whole(NAME);
    }
}

/// One that runs keeps its mark, however often somebody looks.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_stays_so() {
    let stage = Stage::running(4, 1, &[("w", 1)]).await;
    stage
        .kubernetes
        .set_faults(|call, _| match call == "upgrade" {
            true => Fault::DieBefore,
            false => Fault::None,
        });
    let upgrade = stage.upgrade().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    look_at_clusters(&stage.clusters).await;
    assert!(matches!(stage.cluster(NAME).work, Work::Upgrading { .. }));
    stage.kubernetes.clear_faults();
    stage.restart().await;
    stage.completes(upgrade).await;
    stage.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn one_whose_building_is_lost_is_not_told_to_be_built_and_can_be_deleted() {
    let stage = Stage::new(3).await;
    stage.kubernetes.set_faults(|call, _| match call == "join" {
        true => Fault::DieBefore,
        false => Fault::None,
    });
    let begun = stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.close().await;
    assert_eq!(stage.operations.forget_unfinished().await.unwrap(), 1);
    assert!(stage.operations.get(begun).await.is_err());
    stage.kubernetes.clear_faults();
    stage.open().await;
    look_at_clusters(&stage.clusters).await;
    assert_eq!(stage.cluster(NAME).work, Work::Idle);
    // Its control plane is there: what is missing comes.
    look(&stage).await;
    tokio::time::sleep(Duration::from_secs(150)).await;
    stage.delete(NAME).await;
}

#[tokio::test(start_paused = true)]
async fn one_whose_building_is_lost_before_it_began_is_told_to_be_in_error() {
    let stage = Stage::new(2).await;
    stage.kubernetes.set_faults(|call, _| match call == "init" {
        true => Fault::DieBefore,
        false => Fault::None,
    });
    stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.close().await;
    assert_eq!(stage.operations.forget_unfinished().await.unwrap(), 1);
    stage.kubernetes.clear_faults();
    stage.open().await;
    look(&stage).await;
    let told = stage.clusters.get(NAME).unwrap();
    assert_eq!(told.status, ClusterStatus::Error);
    assert!(
        told.message.ends_with("strata cluster delete c"),
        "{told:?}"
    );
    stage.delete(NAME).await;
}

/// What is called off for a deletion and cannot be undone then: nobody has to
/// ask for the deletion again.
#[tokio::test(start_paused = true)]
async fn a_deletion_does_not_wait_for_what_cannot_be_undone() {
    let stage = Stage::running(4, 1, &[("w", 1)]).await;
    let refuses = Arc::new(AtomicBool::new(false));
    let told = refuses.clone();
    stage.kubernetes.set_faults(move |call, machine| {
        match (call, machine, told.load(Ordering::SeqCst)) {
            ("ready", "m4", _) => Fault::Before,
            ("forget", _, true) => Fault::Refused,
            _ => Fault::None,
        }
    });
    let grown = scale(&stage, 3).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    refuses.store(true, Ordering::SeqCst);
    let deleted = stage.clusters.delete(&admin(), NAME).await.unwrap();
    let ended = stage.wait(grown).await;
    assert!(ended.holds_claims(), "{ended:?}");
    let waits = stage.operations.get(deleted).await.unwrap();
    assert!(matches!(waits.state, State::Scheduled), "{waits:?}");
    look_at_clusters(&stage.clusters).await;
    stage.completes(deleted).await;
    stage.assert_nothing();
}
