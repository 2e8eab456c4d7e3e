//! What is known of clusters by a server that has just begun, and what it does
//! before it has looked.

use std::time::Duration;

use strata_clusters::sim::Fault;
use strata_server::core::{NodeReport, Seen};
use strata_server::operations::{ClusterSettings, Clusters};
use strata_server::reconcile::{look_at_clusters, look_at_machines};
use strata_types::ErrorKind;
use strata_types::cluster::ClusterStatus;
use strata_types::instance::InstanceState;

use crate::clusters_stage::{NAME, Stage};
use crate::world::admin;

/// A server that has just begun: it knows the records, and has seen nothing.
fn begun(stage: &Stage) -> Clusters {
    Clusters {
        sight: Default::default(),
        settings: ClusterSettings::default(),
        ..(*stage.clusters).clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_just_begun_tells_no_more_than_it_knows() {
    let stage = Stage::running(3, 1, &[("w", 1)]).await;
    let own = begun(&stage);
    let told = own.get(NAME).unwrap();
    assert_eq!(told.status, ClusterStatus::Reconciling, "{told:?}");
    assert!(told.message.contains("has just begun"), "{told:?}");
    look_at_clusters(&own).await;
    assert_eq!(own.get(NAME).unwrap().status, ClusterStatus::Running);

    // One that does not answer yet may only not have been reached.
    stage.kill(&stage.of_pool(NAME, "")[0]).await;
    let own = begun(&stage);
    look_at_clusters(&own).await;
    assert_eq!(own.get(NAME).unwrap().status, ClusterStatus::Reconciling);
    tokio::time::sleep(Duration::from_secs(61)).await;
    look_at_clusters(&own).await;
    assert_eq!(own.get(NAME).unwrap().status, ClusterStatus::Error);
}

/// Nobody has looked since somebody marked it, nor ever since the start.
#[tokio::test(start_paused = true)]
async fn whoever_is_marked_goes_though_nobody_has_looked_yet() {
    let stage = Stage::running(4, 1, &[("w", 3)]).await;
    let oldest = stage.of_pool(NAME, "w").remove(0);
    stage.kubernetes.set_marked(NAME, &oldest, true);
    let sizes = [("w".to_owned(), 2)];
    let plan = stage.clusters.plan_scale(NAME, &sizes).await.unwrap();
    let planned: Vec<_> = plan.remove.iter().map(|it| it.machine.clone()).collect();
    assert_eq!(planned, [&*oldest]);
    let asked = stage
        .clusters
        .scale_pools(&admin(), NAME, sizes.to_vec())
        .await;
    stage.completes(asked.unwrap()).await;
    assert!(stage.cluster(NAME).member(&oldest).is_none());
    stage.assert_whole(NAME);

    // Seen a moment ago, before it was marked.
    look_at_clusters(&stage.clusters).await;
    let oldest = stage.of_pool(NAME, "w").remove(0);
    stage.kubernetes.set_marked(NAME, &oldest, true);
    let sizes = vec![("w".to_owned(), 1)];
    let asked = stage.clusters.scale_pools(&admin(), NAME, sizes).await;
    stage.completes(asked.unwrap()).await;
    assert!(stage.cluster(NAME).member(&oldest).is_none());
    stage.assert_whole(NAME);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_chosen_to_go_while_nothing_is_known() {
    let stage = Stage::running(3, 1, &[("w", 2)]).await;
    stage
        .kubernetes
        .set_faults(|call, _| match call == "observe" {
            true => Fault::DieBefore,
            false => Fault::None,
        });
    look_at_clusters(&stage.clusters).await;
    let sizes = vec![("w".to_owned(), 1)];
    let plan = stage.clusters.plan_scale(NAME, &sizes).await;
    assert_eq!(plan.unwrap_err().kind(), ErrorKind::Unavailable);
    let who = admin();
    let asked = stage.clusters.scale_pools(&who, NAME, sizes.clone());
    stage.fails(asked.await.unwrap()).await;
    stage.assert_owned();
    assert_eq!(stage.of_pool(NAME, "w").len(), 2);
    stage.kubernetes.clear_faults();
    let asked = stage.clusters.scale_pools(&admin(), NAME, sizes).await;
    stage.completes(asked.unwrap()).await;
    stage.assert_whole(NAME);
}

/// Kubernetes takes a minute to notice; its nodes are Ready until then.
#[tokio::test(start_paused = true)]
async fn machine_that_does_not_answer_is_shown_by_its_lease() {
    let stage = Stage::running(3, 1, &[("w", 2)]).await;
    look_at_clusters(&stage.clusters).await;
    assert_eq!(
        stage.clusters.get(NAME).unwrap().status,
        ClusterStatus::Running
    );
    let silent = stage.of_pool(NAME, "w").remove(0);
    let lost = Seen {
        reported: Some(NodeReport::of(
            InstanceState::Failed,
            "nothing was heard of it",
        )),
        ..crate::world::seen(4, 8000)
    };
    stage.core.see_node(&silent, &lost).await.unwrap();
    let told = stage.clusters.get(NAME).unwrap();
    assert_eq!(told.status, ClusterStatus::Degraded, "{told:?}");
    assert!(told.message.contains(&silent), "{told:?}");
    let phase = |id: &str| {
        let nodes = stage.clusters.nodes(NAME).unwrap();
        let node = nodes.into_iter().find(|node| node.machine == id);
        node.unwrap().phase
    };
    assert_eq!(phase(&silent), "LOST");
    // Its provider says more.
    stage.kill(&silent).await;
    look_at_machines(&stage.hypervisors, &stage.operations).await;
    assert_eq!(phase(&silent), "OFF");
    assert_eq!(phase(&stage.of_pool(NAME, "")[0]), "UP");
}

#[tokio::test(start_paused = true)]
async fn machine_is_named_as_its_provider_does() {
    let stage = Stage::running(2, 1, &[("w", 1)]).await;
    let worker = stage.of_pool(NAME, "w").remove(0);
    let own = (worker.clone(), worker.clone());
    assert_eq!(stage.clusters.provider_names(&worker), own);
    look_at_machines(&stage.hypervisors, &stage.operations).await;
    let names = (worker.clone(), format!("{worker}.sim"));
    assert_eq!(stage.clusters.provider_names(&worker), names);
}
