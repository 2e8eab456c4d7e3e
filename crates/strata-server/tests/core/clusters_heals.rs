//! Members that die when there are too few machines to replace them.

use strata_server::core::Precondition;
use strata_server::operations::{
    CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, HealCluster, HealInput,
};
use strata_server::reconcile::look_at_clusters;
use strata_types::cluster::{ClusterStatus, InstanceType};
use strata_workflow::Filter;

use crate::clusters_stage::{NAME, Stage, plane, pools_of};
use crate::world::admin;

/// Looks often enough to see, to give up, and to have it replaced.
async fn look(stage: &Stage) {
    for _ in 0..3 {
        look_at_clusters(&stage.clusters).await;
        for one in stage.operations.list(&Filter::default()).await.unwrap() {
            drop(stage.wait(one.id).await);
        }
    }
}

async fn cures(stage: &Stage) -> usize {
    let all = stage.operations.list(&Filter::default()).await.unwrap();
    all.iter().filter(|it| it.kind == "cluster-heal").count()
}

#[tokio::test(start_paused = true)]
async fn as_many_are_replaced_as_there_are_machines_and_the_control_plane_first() {
    let stage = Stage::running(6, 3, &[("w", 2)]).await;
    let (worker, control) = (stage.of_pool(NAME, "w").remove(0), stage.of_pool(NAME, ""));
    stage.kill(&worker).await;
    stage.kill(&control[0]).await;
    let input = HealInput {
        cluster: NAME.into(),
        dead: vec![worker.clone(), control[0].clone()],
    };
    stage.run::<HealCluster>(&input).await;
    stage.assert_owned();
    let now = stage.cluster(NAME);
    assert!(now.member(&control[0]).is_none(), "{now:?}");
    assert!(now.member(&worker).is_some_and(|it| it.joined), "{now:?}");
    assert_eq!(now.failure, None);

    // The machine of the one that was replaced is free, and takes its place.
    look(&stage).await;
    assert!(stage.cluster(NAME).member(&worker).is_none());
    stage.assert_whole(NAME);
    stage.delete(NAME).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_machine_is_told_of_and_replaced_when_one_is_free() {
    let stage = Stage::running(4, 1, &[("w", 2)]).await;
    let spare = ["m1", "m2", "m3", "m4"].into_iter();
    let mut spare = spare.filter(|id| stage.cluster(NAME).member(id).is_none());
    let spare = spare.next().unwrap();
    stage
        .run::<CreateHypervisor>(&CreateInput::hypervisor(spare))
        .await;
    let dead = stage.of_pool(NAME, "w").remove(0);
    stage.kill(&dead).await;
    look(&stage).await;
    assert_eq!(
        cures(&stage).await,
        0,
        "there is nothing that could be done"
    );
    let told = stage.clusters.get(NAME).unwrap();
    assert_eq!(told.status, ClusterStatus::Degraded);
    let named = format!("worker {dead} is NotReady");
    assert!(told.message.contains(&named), "{told:?}");
    assert!(
        told.message.contains("no machine is free to replace it")
            && told.message.contains("strata machine add"),
        "{told:?}"
    );

    stage
        .run::<DestroyHypervisor>(&DestroyInput::at_once(spare))
        .await;
    look(&stage).await;
    assert!(stage.cluster(NAME).member(&dead).is_none());
    assert_eq!(cures(&stage).await, 1);
    stage.assert_whole(NAME);
    stage.delete(NAME).await;
}

/// What has left the cluster already is of no use to it where it is: its
/// machine may be the only one that could take the place.
#[tokio::test(start_paused = true)]
async fn a_machine_that_left_its_cluster_comes_back_when_no_other_is_free() {
    let stage = Stage::running(3, 1, &[("w", 2)]).await;
    let left = stage.of_pool(NAME, "w").remove(0);
    // A cure that was stopped after the cluster had forgotten it.
    stage.kill(&left).await;
    let forgotten = |record: &mut serde_json::Value| {
        for member in record["members"].as_array_mut().unwrap() {
            if member["machine"] == left {
                member["joined"] = false.into();
            }
        }
    };
    stage.rewrite(NAME, forgotten).await;
    look(&stage).await;
    look(&stage).await;
    assert!(
        stage
            .cluster(NAME)
            .member(&left)
            .is_some_and(|it| it.joined)
    );
    stage.assert_whole(NAME);
    stage.delete(NAME).await;
}

/// One worker of three is replaced at a time: not always the same, which cannot
/// be.
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_machine_takes_nobody_elses_turn() {
    let stage = Stage::new(6).await;
    let mut spec = stage.core.machine("m6").unwrap().spec.clone();
    spec.labels.insert("instance-type".into(), "gpu".into());
    let (who, any) = (admin(), Precondition::default());
    let labelled = stage.core.update_machine(&who, "m6", &spec, any).await;
    labelled.unwrap();
    let mut pools = pools_of(&[("g", 1), ("w", 2)]);
    pools[0].instance_type = InstanceType::Gpu;
    let asked = stage.clusters.create(&who, NAME, "", plane(1), pools).await;
    stage.completes(asked.unwrap()).await;
    stage.kill("m6").await;
    look(&stage).await;
    assert_eq!(cures(&stage).await, 0, "there is no other with a GPU");
    let dead = stage.of_pool(NAME, "w").remove(0);
    stage.kill(&dead).await;
    look(&stage).await;
    let now = stage.cluster(NAME);
    assert!(now.member(&dead).is_none(), "{now:?}");
    assert!(now.member("m6").is_some(), "{now:?}");
    stage.delete(NAME).await;
}
