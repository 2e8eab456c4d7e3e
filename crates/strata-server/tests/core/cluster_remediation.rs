//! Members that die when there are too few machines to replace them.

use strata_server::core::Precondition;
use strata_server::operations::{
    CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, HealCluster, HealInput,
};
use strata_server::reconcile::look_at_clusters;
use strata_types::cluster::{ClusterStatus, InstanceType};
use strata_workflow::Filter;

use crate::cluster_world::{ClusterWorld, NAME, plane, pools_of};
use crate::world::admin;

/// Reconciles often enough to observe, to abandon, and to have it replaced.
async fn look(world: &ClusterWorld) {
    for _ in 0..3 {
        look_at_clusters(&world.clusters).await;
        for one in world.operations.list(&Filter::default()).await.unwrap() {
            drop(world.wait(one.id).await);
        }
    }
}

async fn remediations(world: &ClusterWorld) -> usize {
    let all = world.operations.list(&Filter::default()).await.unwrap();
    all.iter().filter(|it| it.kind == "cluster-heal").count()
}

#[tokio::test(start_paused = true)]
async fn as_many_are_replaced_as_there_are_machines_and_the_control_plane_first() {
    let world = ClusterWorld::running(6, 3, &[("w", 2)]).await;
    let (worker, control) = (world.of_pool(NAME, "w").remove(0), world.of_pool(NAME, ""));
    world.kill(&worker).await;
    world.kill(&control[0]).await;
    let input = HealInput {
        cluster: NAME.into(),
        dead: vec![worker.clone(), control[0].clone()],
    };
    world.run::<HealCluster>(&input).await;
    world.assert_owned();
    let now = world.cluster(NAME);
    assert!(now.member(&control[0]).is_none(), "{now:?}");
    assert!(now.member(&worker).is_some_and(|it| it.joined), "{now:?}");
    assert_eq!(now.failure, None);

    // The machine of the replaced member is free, and takes its place.
    look(&world).await;
    assert!(world.cluster(NAME).member(&worker).is_none());
    world.assert_whole(NAME);
    world.delete(NAME).await;
}

#[tokio::test(start_paused = true)]
async fn blocked_member_is_reported_and_replaced_when_a_machine_is_free() {
    let world = ClusterWorld::running(4, 1, &[("w", 2)]).await;
    let spare = ["m1", "m2", "m3", "m4"].into_iter();
    let mut spare = spare.filter(|id| world.cluster(NAME).member(id).is_none());
    let spare = spare.next().unwrap();
    world
        .run::<CreateHypervisor>(&CreateInput::hypervisor(spare))
        .await;
    let dead = world.of_pool(NAME, "w").remove(0);
    world.kill(&dead).await;
    look(&world).await;
    assert_eq!(
        remediations(&world).await,
        0,
        "there is nothing that could be done"
    );
    let told = world.clusters.get(NAME).unwrap();
    assert_eq!(told.status, ClusterStatus::Degraded);
    let named = format!("worker {dead} is NotReady");
    assert!(told.message.contains(&named), "{told:?}");
    assert!(
        told.message.contains("no machine is free to replace it")
            && told.message.contains("strata machine add"),
        "{told:?}"
    );

    world
        .run::<DestroyHypervisor>(&DestroyInput::at_once(spare))
        .await;
    look(&world).await;
    assert!(world.cluster(NAME).member(&dead).is_none());
    assert_eq!(remediations(&world).await, 1);
    world.assert_whole(NAME);
    world.delete(NAME).await;
}

/// What has left the cluster already is of no use to it where it is: its
/// machine may be the only one that could take the place.
#[tokio::test(start_paused = true)]
async fn removed_machine_rejoins_when_no_other_is_free() {
    let world = ClusterWorld::running(3, 1, &[("w", 2)]).await;
    let left = world.of_pool(NAME, "w").remove(0);
    // A cure that was stopped after the cluster had removed it.
    world.kill(&left).await;
    let forgotten = |record: &mut serde_json::Value| {
        for member in record["members"].as_array_mut().unwrap() {
            if member["machine"] == left {
                member["joined"] = false.into();
            }
        }
    };
    world.rewrite(NAME, forgotten).await;
    look(&world).await;
    look(&world).await;
    assert!(
        world
            .cluster(NAME)
            .member(&left)
            .is_some_and(|it| it.joined)
    );
    world.assert_whole(NAME);
    world.delete(NAME).await;
}

/// One worker of three is replaced at a time: not always the same, which cannot
/// be.
#[tokio::test(start_paused = true)]
async fn blocked_member_does_not_delay_other_replacements() {
    let world = ClusterWorld::new(6).await;
    let mut spec = world.core.machine("m6").unwrap().spec.clone();
    spec.labels.insert("instance-type".into(), "gpu".into());
    let (principal, any) = (admin(), Precondition::default());
    let labelled = world
        .core
        .update_machine(&principal, "m6", &spec, any)
        .await;
    labelled.unwrap();
    let mut pools = pools_of(&[("g", 1), ("w", 2)]);
    pools[0].instance_type = InstanceType::Gpu;
    let asked = world
        .clusters
        .create(&principal, NAME, "", plane(1), pools)
        .await;
    world.completes(asked.unwrap()).await;
    world.kill("m6").await;
    look(&world).await;
    assert_eq!(
        remediations(&world).await,
        0,
        "there is no other with a GPU"
    );
    let dead = world.of_pool(NAME, "w").remove(0);
    world.kill(&dead).await;
    look(&world).await;
    let now = world.cluster(NAME);
    assert!(now.member(&dead).is_none(), "{now:?}");
    assert!(now.member("m6").is_some(), "{now:?}");
    world.delete(NAME).await;
}
