//! What is known of clusters by a server that has just started, and what it
//! does before its first observation.

use std::time::Duration;

use strata_clusters::sim::Fault;
use strata_server::core::{NodeFacts, NodeReport};
use strata_server::operations::{ClusterSettings, Clusters};
use strata_server::reconcile::{look_at_clusters, look_at_machines};
use strata_types::ErrorKind;
use strata_types::cluster::ClusterStatus;
use strata_types::instance::InstanceState;

use crate::cluster_world::{ClusterWorld, NAME};
use crate::world::admin;

/// A server that has just begun: it knows the records, and has seen nothing.
fn begun(world: &ClusterWorld) -> Clusters {
    Clusters {
        observations: Default::default(),
        settings: ClusterSettings::default(),
        ..(*world.clusters).clone()
    }
}

#[tokio::test(start_paused = true)]
async fn fresh_server_reports_no_unobserved_cluster_state() {
    let world = ClusterWorld::running(3, 1, &[("w", 1)]).await;
    let own = begun(&world);
    let told = own.get(NAME).unwrap();
    assert_eq!(told.status, ClusterStatus::Reconciling, "{told:?}");
    assert!(told.message.contains("has just begun"), "{told:?}");
    look_at_clusters(&own).await;
    assert_eq!(own.get(NAME).unwrap().status, ClusterStatus::Running);

    // One that does not answer yet may only not have been reached.
    world.kill(&world.of_pool(NAME, "")[0]).await;
    let own = begun(&world);
    look_at_clusters(&own).await;
    assert_eq!(own.get(NAME).unwrap().status, ClusterStatus::Reconciling);
    tokio::time::sleep(Duration::from_secs(61)).await;
    look_at_clusters(&own).await;
    assert_eq!(own.get(NAME).unwrap().status, ClusterStatus::Error);
}

/// There was no observation since a caller marked it, nor ever since the start.
#[tokio::test(start_paused = true)]
async fn marked_member_is_removed_before_the_first_observation() {
    let world = ClusterWorld::running(4, 1, &[("w", 3)]).await;
    let oldest = world.of_pool(NAME, "w").remove(0);
    world.kubernetes.set_marked(NAME, &oldest, true);
    let sizes = [("w".to_owned(), 2)];
    let plan = world.clusters.plan_scale(NAME, &sizes).await.unwrap();
    let planned: Vec<_> = plan.remove.iter().map(|it| it.machine.clone()).collect();
    assert_eq!(planned, [&*oldest]);
    let asked = world
        .clusters
        .scale_pools(&admin(), NAME, sizes.to_vec())
        .await;
    world.completes(asked.unwrap()).await;
    assert!(world.cluster(NAME).member(&oldest).is_none());
    world.assert_whole(NAME);

    // Observed a moment ago, before it was marked.
    look_at_clusters(&world.clusters).await;
    let oldest = world.of_pool(NAME, "w").remove(0);
    world.kubernetes.set_marked(NAME, &oldest, true);
    let sizes = vec![("w".to_owned(), 1)];
    let asked = world.clusters.scale_pools(&admin(), NAME, sizes).await;
    world.completes(asked.unwrap()).await;
    assert!(world.cluster(NAME).member(&oldest).is_none());
    world.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn no_member_is_removed_without_an_observation() {
    let world = ClusterWorld::running(3, 1, &[("w", 2)]).await;
    world
        .kubernetes
        .set_faults(|call, _| match call == "observe" {
            true => Fault::CrashBefore,
            false => Fault::None,
        });
    look_at_clusters(&world.clusters).await;
    let sizes = vec![("w".to_owned(), 1)];
    let plan = world.clusters.plan_scale(NAME, &sizes).await;
    assert_eq!(plan.unwrap_err().kind(), ErrorKind::Unavailable);
    let principal = admin();
    let asked = world.clusters.scale_pools(&principal, NAME, sizes.clone());
    world.fails(asked.await.unwrap()).await;
    world.assert_owned();
    assert_eq!(world.of_pool(NAME, "w").len(), 2);
    world.kubernetes.clear_faults();
    let asked = world.clusters.scale_pools(&admin(), NAME, sizes).await;
    world.completes(asked.unwrap()).await;
    world.assert_whole(NAME);
}

/// Kubernetes takes a minute to notice; its nodes are Ready until then.
#[tokio::test(start_paused = true)]
async fn machine_that_does_not_answer_is_shown_by_its_lease() {
    let world = ClusterWorld::running(3, 1, &[("w", 2)]).await;
    look_at_clusters(&world.clusters).await;
    assert_eq!(
        world.clusters.get(NAME).unwrap().status,
        ClusterStatus::Running
    );
    let silent = world.of_pool(NAME, "w").remove(0);
    let lost = NodeFacts {
        reported: Some(NodeReport::of(
            InstanceState::Failed,
            "nothing was heard of it",
        )),
        ..crate::world::facts(4, 8000)
    };
    world.core.update_node_facts(&silent, &lost).await.unwrap();
    let told = world.clusters.get(NAME).unwrap();
    assert_eq!(told.status, ClusterStatus::Degraded, "{told:?}");
    assert!(told.message.contains(&silent), "{told:?}");
    let phase = |id: &str| {
        let nodes = world.clusters.nodes(NAME).unwrap();
        let node = nodes.into_iter().find(|node| node.machine == id);
        node.unwrap().phase
    };
    assert_eq!(phase(&silent), "LOST");
    // Its provider reports more.
    world.kill(&silent).await;
    look_at_machines(&world.hypervisors, &world.operations).await;
    assert_eq!(phase(&silent), "OFF");
    assert_eq!(phase(&world.of_pool(NAME, "")[0]), "UP");
}

#[tokio::test(start_paused = true)]
async fn machine_is_named_as_its_provider_does() {
    let world = ClusterWorld::running(2, 1, &[("w", 1)]).await;
    let worker = world.of_pool(NAME, "w").remove(0);
    let own = (worker.clone(), worker.clone());
    assert_eq!(world.clusters.provider_names(&worker), own);
    look_at_machines(&world.hypervisors, &world.operations).await;
    let names = (worker.clone(), format!("{worker}.sim"));
    assert_eq!(world.clusters.provider_names(&worker), names);
}
