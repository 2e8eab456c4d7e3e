//! A change of a cluster is in its record before the caller is answered, is
//! never dropped in silence, and is accepted when it is requested again.

use std::time::Duration;

use strata_clusters::sim::Fault;
use strata_server::core::Work;
use strata_server::reconcile::look_at_clusters;
use strata_types::ErrorKind;
use strata_types::cluster::ClusterStatus;
use strata_workflow::{OperationId, State};

use crate::cluster_world::{ClusterWorld, FIRST, NAME, NEXT, plane, pools_of};
use crate::world::admin;

fn sizes(count: u32) -> Vec<(String, u32)> {
    vec![("w".to_owned(), count)]
}

fn status(world: &ClusterWorld) -> (ClusterStatus, String) {
    let told = world.clusters.get(NAME).unwrap();
    (told.status, told.message)
}

#[tokio::test(start_paused = true)]
async fn status_leaves_running_with_the_answer() {
    let world = ClusterWorld::running(6, 1, &[("w", 1)]).await;
    look_at_clusters(&world.clusters).await;
    let own = &world.clusters;
    for change in ["scale", "add", "delete pool", "upgrade", "delete"] {
        look_at_clusters(own).await;
        assert_eq!(status(&world).0, ClusterStatus::Running, "{change}");
        // Nothing runs until it is opened again: the status is that of the record.
        world.close().await;
        let principal = admin();
        let begun = match change {
            "scale" => own.scale_pools(&principal, NAME, sizes(2)).await,
            "add" => own.add_pools(&principal, NAME, pools_of(&[("x", 1)])).await,
            "delete pool" => own.delete_pools(&principal, NAME, vec!["x".into()]).await,
            "upgrade" => own.upgrade(&principal, NAME, &NEXT.to_string()).await,
            _ => own.delete(&principal, NAME).await,
        };
        let expected = match change {
            "delete" => ClusterStatus::Stopping,
            _ => ClusterStatus::Reconciling,
        };
        assert_eq!(status(&world).0, expected, "{change}");
        world.open().await;
        world.completes(begun.unwrap()).await;
    }
    world.assert_nothing();
}

#[tokio::test(start_paused = true)]
async fn running_after_a_change_is_never_preceded_by_degraded() {
    let world = ClusterWorld::running(6, 1, &[("w", 1)]).await;
    look_at_clusters(&world.clusters).await;
    for count in [3, 1, 4] {
        let principal = admin();
        let begun = world
            .clusters
            .scale_pools(&principal, NAME, sizes(count))
            .await;
        let id = begun.unwrap();
        loop {
            let ended = tokio::time::timeout(Duration::from_millis(50), world.wait(id)).await;
            let (status, message) = status(&world);
            assert_ne!(status, ClusterStatus::Degraded, "{message}");
            if ended.is_ok() {
                break;
            }
        }
        let (status, message) = status(&world);
        assert_eq!(status, ClusterStatus::Running, "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn scale_of_a_silent_cluster_runs_when_it_answers() {
    let world = ClusterWorld::running(3, 1, &[("w", 2)]).await;
    world
        .kubernetes
        .set_faults(|call, _| match call == "observe" {
            true => Fault::CrashBefore,
            false => Fault::None,
        });
    look_at_clusters(&world.clusters).await;
    let begun = world.clusters.scale_pools(&admin(), NAME, sizes(1)).await;
    let id = begun.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let (_, message) = status(&world);
    assert!(message.contains("changing node pools"), "{message}");
    assert!(message.contains("does not answer"), "{message}");
    world.kubernetes.clear_faults();
    world.completes(id).await;
    assert_eq!(world.of_pool(NAME, "w").len(), 1);
    assert_eq!(world.cluster(NAME).failure, None);
    world.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn failed_scale_is_reported_until_the_next_change() {
    let world = ClusterWorld::running(3, 1, &[("w", 2)]).await;
    world
        .kubernetes
        .set_faults(|call, _| match call == "observe" {
            true => Fault::CrashBefore,
            false => Fault::None,
        });
    look_at_clusters(&world.clusters).await;
    let begun = world.clusters.scale_pools(&admin(), NAME, sizes(1)).await;
    world.fails(begun.unwrap()).await;
    world.kubernetes.clear_faults();
    look_at_clusters(&world.clusters).await;
    let (told, message) = status(&world);
    assert_eq!(told, ClusterStatus::Degraded, "{message}");
    assert!(message.contains("changing node pools stopped"), "{message}");
    assert!(world.cluster(NAME).accepted.is_empty());
    let begun = world.clusters.scale_pools(&admin(), NAME, sizes(1)).await;
    world.completes(begun.unwrap()).await;
    assert_eq!(status(&world).0, ClusterStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn change_whose_server_died_is_begun_by_another() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    let accepted = serde_json::json!([{
        "id": "01890000-0000-7000-8000-000000000001",
        "change": {"pools": {"scale": [["w", 2]]}},
        "askedBy": "ann",
        "atMs": 0,
    }]);
    world
        .rewrite(NAME, |record| record["accepted"] = accepted)
        .await;
    assert_eq!(status(&world).0, ClusterStatus::Reconciling);
    look_at_clusters(&world.clusters).await;
    let operation = world
        .cluster(NAME)
        .accepted
        .first()
        .map(|it| it.operation.clone());
    if let Some(id) = operation {
        world.completes(id.parse().unwrap()).await;
    }
    assert_eq!(world.of_pool(NAME, "w").len(), 2);
    assert!(world.cluster(NAME).accepted.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelled_change_leaves_nothing_behind() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    look_at_clusters(&world.clusters).await;
    world.close().await;
    let begun = world.clusters.scale_pools(&admin(), NAME, sizes(2)).await;
    let id = begun.unwrap();
    world.operations.cancel(id, "ann").await.unwrap();
    world.open().await;
    world.wait(id).await;
    look_at_clusters(&world.clusters).await;
    let now = world.cluster(NAME);
    assert!(now.accepted.is_empty() && now.failure.is_none(), "{now:?}");
    assert_eq!(status(&world).0, ClusterStatus::Running);
}

#[tokio::test(start_paused = true)]
async fn equal_creates_at_once_are_one_and_all_fine() {
    let world = ClusterWorld::new(3).await;
    let one = || world.ask(NAME, 1, &[("w", 1)]);
    let (a, b, c, d) = tokio::join!(one(), one(), one(), one());
    let first = a.unwrap();
    for other in [b, c, d] {
        assert_eq!(other.unwrap(), first);
    }
    world.completes(first).await;
    // A record whose writer died before it began.
    let made = world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    assert_eq!(made, first);
    let other = world.ask(NAME, 1, &[("w", 2)]).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::AlreadyExists);
}

#[tokio::test(start_paused = true)]
async fn delete_asked_for_again_is_the_same_and_fine() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    let principal = admin();
    let delete = || world.clusters.delete(&principal, NAME);
    let (a, b, c) = tokio::join!(delete(), delete(), delete());
    let first = a.unwrap();
    assert_eq!((b.unwrap(), c.unwrap()), (first, first));
    world.completes(first).await;
    assert_eq!(
        world.clusters.delete(&principal, NAME).await.unwrap(),
        first
    );
    let unknown = world
        .clusters
        .delete(&principal, "never")
        .await
        .unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    // The name is free, and what has it then is what is deleted.
    let made = world.ask(NAME, 1, &[]).await.unwrap();
    world.completes(made).await;
    assert_ne!(
        world.clusters.delete(&principal, NAME).await.unwrap(),
        first
    );
}

#[tokio::test(start_paused = true)]
async fn repeated_pool_deletion_and_current_version_are_accepted() {
    let world = ClusterWorld::running(4, 1, &[("w", 1), ("x", 1)]).await;
    let (principal, own) = (admin(), &world.clusters);
    let gone = vec!["x".to_owned()];
    let begun = own
        .delete_pools(&principal, NAME, gone.clone())
        .await
        .unwrap();
    world.completes(begun).await;
    let again = own
        .delete_pools(&principal, NAME, gone.clone())
        .await
        .unwrap();
    let again = world.wait(again).await;
    assert!(matches!(again.state, State::Completed { .. }), "{again:?}");
    // With one that is there, that one goes; with one that never was, nothing.
    let mixed = vec!["x".to_owned(), "none".to_owned()];
    let error = own.delete_pools(&principal, NAME, mixed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let same = own
        .upgrade(&principal, NAME, &FIRST.to_string())
        .await
        .unwrap();
    world.wait(same).await;
    assert_eq!(world.cluster(NAME).spec.version, FIRST);
    // The name of a pool can be used again.
    let made = own.add_pools(&principal, NAME, pools_of(&[("x", 1)])).await;
    world.completes(made.unwrap()).await;
    let begun = own.delete_pools(&principal, NAME, gone).await.unwrap();
    world.completes(begun).await;
    assert!(world.of_pool(NAME, "x").is_empty());
}

#[tokio::test(start_paused = true)]
async fn blocked_drain_is_reported_and_abandoned_by_scaling() {
    let world = ClusterWorld::running(4, 1, &[("w", 3)]).await;
    look_at_clusters(&world.clusters).await;
    world.kubernetes.set_slow_drains(u32::MAX);
    let begun = world.clusters.scale_pools(&admin(), NAME, sizes(2)).await;
    let held = begun.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    look_at_clusters(&world.clusters).await;
    let (told, message) = status(&world);
    assert_eq!(told, ClusterStatus::Reconciling, "{message}");
    assert!(message.contains("PodDisruptionBudget"), "{message}");
    assert!(message.contains("default/simulated"), "{message}");
    assert!(message.contains("strata operation cancel"), "{message}");
    let back = world.clusters.scale_pools(&admin(), NAME, sizes(3)).await;
    world.completes(back.unwrap()).await;
    assert!(matches!(world.wait(held).await.state, State::Failed { .. }));
    assert_eq!(world.of_pool(NAME, "w").len(), 3);
    assert_eq!(world.cluster(NAME).held, None);
    let (told, message) = status(&world);
    assert_eq!(told, ClusterStatus::Running, "{message}");
}

/// A cluster whose upgrade waits for a worker that is not drained.
async fn held_upgrade() -> (ClusterWorld, OperationId) {
    let world = ClusterWorld::running(4, 1, &[("w", 3)]).await;
    look_at_clusters(&world.clusters).await;
    world.kubernetes.set_slow_drains(u32::MAX);
    let held = world.upgrade().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    look_at_clusters(&world.clusters).await;
    let (told, message) = status(&world);
    assert_eq!(told, ClusterStatus::Reconciling, "{message}");
    for part in [
        "PodDisruptionBudget",
        "give the upgrade up",
        &format!("upgrading the cluster to {FIRST}"),
        "scaling pool w",
        "strata operation cancel",
    ] {
        assert!(message.contains(part), "{part:?}: {message}");
    }
    assert_eq!(
        world.cluster(NAME).spec.version,
        NEXT,
        "its control plane is"
    );
    (world, held)
}

/// Nothing is held or closed any more, and the upgrade can be completed.
async fn upgrade_was_given_up(world: &ClusterWorld, held: OperationId) {
    assert!(matches!(world.wait(held).await.state, State::Failed { .. }));
    look_at_clusters(&world.clusters).await;
    let now = world.cluster(NAME);
    assert_eq!((&now.held, now.work), (&None, Work::Idle));
    assert!(now.members.iter().any(|it| it.version == FIRST), "{now:?}");
    let simulated = world.kubernetes.cluster(NAME).unwrap();
    assert!(simulated.nodes.values().all(|node| !node.cordoned));
    // It says that it stands between two versions.
    let (told, message) = status(world);
    assert_eq!(told, ClusterStatus::Degraded, "{message}");
    assert!(
        message.contains("go on with: strata cluster upgrade"),
        "{message}"
    );
    world.kubernetes.set_slow_drains(0);
    world.completes(world.upgrade().await).await;
    let now = world.cluster(NAME);
    assert!(now.members.iter().all(|it| it.version == NEXT), "{now:?}");
}

#[tokio::test(start_paused = true)]
async fn blocked_drain_of_an_upgrade_is_given_up_by_the_version_before() {
    let (world, held) = held_upgrade().await;
    let version = FIRST.to_string();
    let back = world.clusters.upgrade(&admin(), NAME, &version).await;
    assert_eq!(back.unwrap(), held, "it is the one that is given up");
    upgrade_was_given_up(&world, held).await;
    // Without a drain that is held it is a downgrade.
    let back = world.clusters.upgrade(&admin(), NAME, &version).await;
    assert!(back.is_err());
}

#[tokio::test(start_paused = true)]
async fn blocked_drain_of_an_upgrade_is_given_up_by_scaling_the_pool() {
    let (world, held) = held_upgrade().await;
    let same = world.clusters.scale_pools(&admin(), NAME, sizes(3)).await;
    world.completes(same.unwrap()).await;
    upgrade_was_given_up(&world, held).await;
    assert_eq!(world.of_pool(NAME, "w").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn blocked_drain_of_a_pool_deletion_is_abandoned_by_adding_the_pool() {
    let world = ClusterWorld::running(4, 1, &[("w", 2), ("x", 1)]).await;
    look_at_clusters(&world.clusters).await;
    world.kubernetes.set_slow_drains(u32::MAX);
    let names = vec!["w".to_owned()];
    let held = world.clusters.delete_pools(&admin(), NAME, names).await;
    let held = held.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    look_at_clusters(&world.clusters).await;
    let (told, message) = status(&world);
    assert_eq!(told, ClusterStatus::Reconciling, "{message}");
    assert!(message.contains("PodDisruptionBudget"), "{message}");
    assert!(message.contains("by adding pool w again"), "{message}");
    let pools = pools_of(&[("w", 2)]);
    let back = world.clusters.add_pools(&admin(), NAME, pools).await;
    world.completes(back.unwrap()).await;
    assert!(matches!(world.wait(held).await.state, State::Failed { .. }));
    assert_eq!(world.of_pool(NAME, "w").len(), 2);
    assert_eq!(world.of_pool(NAME, "x").len(), 1);
    assert_eq!(world.cluster(NAME).held, None);
    let (told, message) = status(&world);
    assert_eq!(told, ClusterStatus::Running, "{message}");
}

#[tokio::test(start_paused = true)]
async fn machines_without_the_memory_are_refused_by_their_size() {
    let world = ClusterWorld::new(2).await;
    let small = serde_json::json!({ "provider": "sim", "cpu": 1, "ram": 300 });
    for id in ["s1", "s2"] {
        let spec = serde_json::from_value(small.clone()).unwrap();
        let id = crate::world::label(id);
        world.core.add_machine(&admin(), &id, spec).await.unwrap();
    }
    let (own, version) = (&world.clusters, FIRST.to_string());
    let made = own
        .create(&admin(), NAME, &version, plane(1), pools_of(&[("w", 2)]))
        .await;
    let error = made.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(error.message().contains("MB of memory"), "{error}");
    assert!(error.message().contains("s1 has 300 MB"), "{error}");
    let begun = world.ask(NAME, 1, &[("w", 1)]).await.unwrap();
    world.completes(begun).await;
    assert!(world.cluster(NAME).member("s1").is_none());
}

#[tokio::test(start_paused = true)]
async fn changes_that_wait_are_bounded_and_a_deletion_always_passes() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    look_at_clusters(&world.clusters).await;
    world.close().await;
    let principal = admin();
    for n in 0..32 {
        let begun = world
            .clusters
            .scale_pools(&principal, NAME, sizes(n % 2 + 1))
            .await;
        begun.unwrap();
    }
    let more = world.clusters.scale_pools(&principal, NAME, sizes(1)).await;
    assert_eq!(more.unwrap_err().kind(), ErrorKind::Exhausted);
    let deleted = world.clusters.delete(&principal, NAME).await.unwrap();
    world.open().await;
    world.completes(deleted).await;
    world.assert_nothing();
}
