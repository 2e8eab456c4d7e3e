//! A change of a cluster is in its record before the caller is answered, is never
//! dropped in silence, and is fine when it is asked for again.

use std::time::Duration;

use strata_clusters::sim::Fault;
use strata_server::reconcile::look_at_clusters;
use strata_types::ErrorKind;
use strata_types::cluster::ClusterStatus;
use strata_workflow::State;

use crate::clusters_stage::{FIRST, NAME, NEXT, Stage, plane, pools_of};
use crate::world::admin;

fn sizes(count: u32) -> Vec<(String, u32)> {
    vec![("w".to_owned(), count)]
}

fn status(stage: &Stage) -> (ClusterStatus, String) {
    let told = stage.clusters.get(NAME).unwrap();
    (told.status, told.message)
}

#[tokio::test(start_paused = true)]
async fn status_leaves_running_with_the_answer() {
    let stage = Stage::running(6, 1, &[("w", 1)]).await;
    look_at_clusters(&stage.clusters).await;
    let own = &stage.clusters;
    for change in ["scale", "add", "delete pool", "upgrade", "delete"] {
        look_at_clusters(own).await;
        assert_eq!(status(&stage).0, ClusterStatus::Running, "{change}");
        // Nothing runs until it is opened again: the status is that of the record.
        stage.close().await;
        let who = admin();
        let begun = match change {
            "scale" => own.scale_pools(&who, NAME, sizes(2)).await,
            "add" => own.add_pools(&who, NAME, pools_of(&[("x", 1)])).await,
            "delete pool" => own.delete_pools(&who, NAME, vec!["x".into()]).await,
            "upgrade" => own.upgrade(&who, NAME, &NEXT.to_string()).await,
            _ => own.delete(&who, NAME).await,
        };
        let expected = match change {
            "delete" => ClusterStatus::Stopping,
            _ => ClusterStatus::Reconciling,
        };
        assert_eq!(status(&stage).0, expected, "{change}");
        stage.open().await;
        stage.completes(begun.unwrap()).await;
    }
    stage.assert_nothing();
}

#[tokio::test(start_paused = true)]
async fn running_after_a_change_is_never_preceded_by_degraded() {
    let stage = Stage::running(6, 1, &[("w", 1)]).await;
    look_at_clusters(&stage.clusters).await;
    for count in [3, 1, 4] {
        let who = admin();
        let begun = stage.clusters.scale_pools(&who, NAME, sizes(count)).await;
        let id = begun.unwrap();
        loop {
            let ended = tokio::time::timeout(Duration::from_millis(50), stage.wait(id)).await;
            let (status, message) = status(&stage);
            assert_ne!(status, ClusterStatus::Degraded, "{message}");
            if ended.is_ok() {
                break;
            }
        }
        let (status, message) = status(&stage);
        assert_eq!(status, ClusterStatus::Running, "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn scale_of_a_cluster_that_does_not_answer_is_made_when_it_does() {
    let stage = Stage::running(3, 1, &[("w", 2)]).await;
    stage
        .kubernetes
        .set_faults(|call, _| match call == "observe" {
            true => Fault::DieBefore,
            false => Fault::None,
        });
    look_at_clusters(&stage.clusters).await;
    let begun = stage.clusters.scale_pools(&admin(), NAME, sizes(1)).await;
    let id = begun.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let (_, message) = status(&stage);
    assert!(message.contains("changing its pools"), "{message}");
    assert!(message.contains("does not answer"), "{message}");
    stage.kubernetes.clear_faults();
    stage.completes(id).await;
    assert_eq!(stage.of_pool(NAME, "w").len(), 1);
    assert_eq!(stage.cluster(NAME).failure, None);
    stage.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn scale_that_failed_says_why_until_something_is_asked_for() {
    let stage = Stage::running(3, 1, &[("w", 2)]).await;
    stage
        .kubernetes
        .set_faults(|call, _| match call == "observe" {
            true => Fault::DieBefore,
            false => Fault::None,
        });
    look_at_clusters(&stage.clusters).await;
    let begun = stage.clusters.scale_pools(&admin(), NAME, sizes(1)).await;
    stage.fails(begun.unwrap()).await;
    stage.kubernetes.clear_faults();
    look_at_clusters(&stage.clusters).await;
    let (told, message) = status(&stage);
    assert_eq!(told, ClusterStatus::Degraded, "{message}");
    assert!(message.contains("changing its pools stopped"), "{message}");
    assert!(stage.cluster(NAME).accepted.is_empty());
    let begun = stage.clusters.scale_pools(&admin(), NAME, sizes(1)).await;
    stage.completes(begun.unwrap()).await;
    assert_eq!(status(&stage).0, ClusterStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn change_whose_server_died_is_begun_by_another() {
    let stage = Stage::running(3, 1, &[("w", 1)]).await;
    let accepted = serde_json::json!([{
        "id": "01890000-0000-7000-8000-000000000001",
        "change": {"pools": {"scale": [["w", 2]]}},
        "askedBy": "ann",
        "atMs": 0,
    }]);
    stage
        .rewrite(NAME, |record| record["accepted"] = accepted)
        .await;
    assert_eq!(status(&stage).0, ClusterStatus::Reconciling);
    look_at_clusters(&stage.clusters).await;
    let operation = stage
        .cluster(NAME)
        .accepted
        .first()
        .map(|it| it.operation.clone());
    if let Some(id) = operation {
        stage.completes(id.parse().unwrap()).await;
    }
    assert_eq!(stage.of_pool(NAME, "w").len(), 2);
    assert!(stage.cluster(NAME).accepted.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelled_change_leaves_nothing_behind() {
    let stage = Stage::running(3, 1, &[("w", 1)]).await;
    look_at_clusters(&stage.clusters).await;
    stage.close().await;
    let begun = stage.clusters.scale_pools(&admin(), NAME, sizes(2)).await;
    let id = begun.unwrap();
    stage.operations.cancel(id, "ann").await.unwrap();
    stage.open().await;
    stage.wait(id).await;
    look_at_clusters(&stage.clusters).await;
    let now = stage.cluster(NAME);
    assert!(now.accepted.is_empty() && now.failure.is_none(), "{now:?}");
    assert_eq!(status(&stage).0, ClusterStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn equal_creates_at_once_are_one_and_all_fine() {
    let stage = Stage::new(3).await;
    let one = || stage.ask(NAME, 1, &[("w", 1)]);
    let (a, b, c, d) = tokio::join!(one(), one(), one(), one());
    let first = a.unwrap();
    for other in [b, c, d] {
        assert_eq!(other.unwrap(), first);
    }
    stage.completes(first).await;
    // A record whose writer died before it began.
    let made = stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    assert_eq!(made, first);
    let other = stage.ask(NAME, 1, &[("w", 2)]).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::AlreadyExists);
}

#[tokio::test(start_paused = true)]
async fn delete_asked_for_again_is_the_same_and_fine() {
    let stage = Stage::running(3, 1, &[("w", 1)]).await;
    let who = admin();
    let delete = || stage.clusters.delete(&who, NAME);
    let (a, b, c) = tokio::join!(delete(), delete(), delete());
    let first = a.unwrap();
    assert_eq!((b.unwrap(), c.unwrap()), (first, first));
    stage.completes(first).await;
    assert_eq!(stage.clusters.delete(&who, NAME).await.unwrap(), first);
    let unknown = stage.clusters.delete(&who, "never").await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    // The name is free, and what has it then is what is deleted.
    let made = stage.ask(NAME, 1, &[]).await.unwrap();
    stage.completes(made).await;
    assert_ne!(stage.clusters.delete(&who, NAME).await.unwrap(), first);
}

#[tokio::test(start_paused = true)]
async fn pool_deleted_again_and_version_it_has_are_fine() {
    let stage = Stage::running(4, 1, &[("w", 1), ("x", 1)]).await;
    let (who, own) = (admin(), &stage.clusters);
    let gone = vec!["x".to_owned()];
    let begun = own.delete_pools(&who, NAME, gone.clone()).await.unwrap();
    stage.completes(begun).await;
    let again = own.delete_pools(&who, NAME, gone.clone()).await.unwrap();
    let again = stage.wait(again).await;
    assert!(matches!(again.state, State::Completed { .. }), "{again:?}");
    // With one that is there, that one goes; with one that never was, nothing.
    let mixed = vec!["x".to_owned(), "none".to_owned()];
    let error = own.delete_pools(&who, NAME, mixed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let same = own.upgrade(&who, NAME, &FIRST.to_string()).await.unwrap();
    stage.wait(same).await;
    assert_eq!(stage.cluster(NAME).spec.version, FIRST);
    // The name of a pool can be used again.
    let made = own.add_pools(&who, NAME, pools_of(&[("x", 1)])).await;
    stage.completes(made.unwrap()).await;
    let begun = own.delete_pools(&who, NAME, gone).await.unwrap();
    stage.completes(begun).await;
    assert!(stage.of_pool(NAME, "x").is_empty());
}

#[tokio::test(start_paused = true)]
async fn drain_that_is_held_says_so_and_is_given_up_by_scaling_again() {
    let stage = Stage::running(4, 1, &[("w", 3)]).await;
    look_at_clusters(&stage.clusters).await;
    stage.kubernetes.set_slow_drains(u32::MAX);
    let begun = stage.clusters.scale_pools(&admin(), NAME, sizes(2)).await;
    let held = begun.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    look_at_clusters(&stage.clusters).await;
    let (told, message) = status(&stage);
    assert_eq!(told, ClusterStatus::Reconciling, "{message}");
    assert!(message.contains("PodDisruptionBudget"), "{message}");
    assert!(message.contains("default/played"), "{message}");
    assert!(message.contains("strata operation cancel"), "{message}");
    let back = stage.clusters.scale_pools(&admin(), NAME, sizes(3)).await;
    stage.completes(back.unwrap()).await;
    assert!(matches!(stage.wait(held).await.state, State::Failed { .. }));
    assert_eq!(stage.of_pool(NAME, "w").len(), 3);
    assert_eq!(stage.cluster(NAME).held, None);
    let (told, message) = status(&stage);
    assert_eq!(told, ClusterStatus::Running, "{message}");
}

#[tokio::test(start_paused = true)]
async fn machines_without_the_memory_are_refused_by_their_size() {
    let stage = Stage::new(2).await;
    let small = serde_json::json!({ "provider": "sim", "cpu": 1, "ram": 300 });
    for id in ["s1", "s2"] {
        let spec = serde_json::from_value(small.clone()).unwrap();
        let id = crate::world::label(id);
        stage.core.add_machine(&admin(), &id, spec).await.unwrap();
    }
    let (own, version) = (&stage.clusters, FIRST.to_string());
    let made = own
        .create(&admin(), NAME, &version, plane(1), pools_of(&[("w", 2)]))
        .await;
    let error = made.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(error.message().contains("MB of memory"), "{error}");
    assert!(error.message().contains("s1 has 300 MB"), "{error}");
    let begun = stage.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    stage.completes(begun).await;
    assert!(stage.cluster(NAME).member("s1").is_none());
}

#[tokio::test(start_paused = true)]
async fn changes_that_wait_are_bounded_and_a_deletion_always_passes() {
    let stage = Stage::running(3, 1, &[("w", 1)]).await;
    look_at_clusters(&stage.clusters).await;
    stage.close().await;
    let who = admin();
    for n in 0..32 {
        let begun = stage
            .clusters
            .scale_pools(&who, NAME, sizes(n % 2 + 1))
            .await;
        begun.unwrap();
    }
    let more = stage.clusters.scale_pools(&who, NAME, sizes(1)).await;
    assert_eq!(more.unwrap_err().kind(), ErrorKind::Exhausted);
    let deleted = stage.clusters.delete(&who, NAME).await.unwrap();
    stage.open().await;
    stage.completes(deleted).await;
    stage.assert_nothing();
}
