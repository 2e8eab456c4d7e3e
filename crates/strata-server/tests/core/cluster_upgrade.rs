//! Clusters that go to another version, and back to a snapshot, through the
//! trials that every kind has to pass.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_clusters::sim::Fault;
use strata_server::core::Principal;
use strata_server::operations::{
    RestoreCluster, RestoreClusterInput, UpgradeCluster, UpgradeInput,
};

use crate::cluster_crash_trials::{On, whole};
use crate::cluster_world::{ClusterWorld, FIRST, NAME, NEXT};
use crate::world::admin;

fn upgraded(world: &ClusterWorld) {
    world.assert_whole(NAME);
    let now = world.cluster(NAME);
    assert_eq!(now.spec.version, NEXT);
    assert!(now.members.iter().all(|it| it.version == NEXT), "{now:?}");
}

/// It stops where it is: the cluster serves, its record says where it stands,
/// and the same request goes on.
async fn goes_on(world: &ClusterWorld) {
    world.assert_owned();
    let now = world.cluster(NAME);
    let simulated = world.kubernetes.cluster(NAME).unwrap();
    assert_eq!(simulated.version, now.spec.version);
    for member in &now.members {
        let node = &simulated.nodes[member.machine.as_str()];
        assert_eq!(node.version, member.version);
        assert!(!node.cordoned, "{} is closed", member.machine);
    }
    let all = now.members.iter().all(|it| it.version == NEXT);
    if !(all && now.spec.version == NEXT) {
        world.completes(world.upgrade().await).await;
    }
    upgraded(world);
}

fn upgrading(world: fn() -> BoxFuture<'static, ClusterWorld>) -> On<UpgradeCluster> {
    let input = |_: &ClusterWorld| UpgradeInput {
        cluster: NAME.into(),
        to: NEXT,
        accepted: String::new(),
    };
    On::new(world, input, upgraded, |world, _| goes_on(world).boxed())
}

#[tokio::test(start_paused = true)]
async fn upgrading_a_small_cluster_passes_every_trial() {
    let world = || ClusterWorld::running(4, 1, &[("w", 2)]).boxed();
    upgrading(world).passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn upgrading_a_cluster_passes_every_trial() {
    let world = || ClusterWorld::running(4, 3, &[("w", 1)]).boxed();
    upgrading(world).passes_all().await;
}

/// A cluster that was upgraded since its snapshot, and whose users changed.
async fn long_after() -> ClusterWorld {
    let world = ClusterWorld::running(5, 3, &[("w", 2)]).await;
    let clusters = &world.clusters;
    let (out, stays) = (named("out"), named("stays"));
    clusters.kubeconfig(&out, NAME, None).await.unwrap();
    let stored = clusters.snapshot(&admin(), NAME).await.unwrap();
    world.completes(stored).await;
    clusters.revoke(&out, NAME, None).await.unwrap();
    clusters.kubeconfig(&stays, NAME, None).await.unwrap();
    world.completes(world.upgrade().await).await;
    world
}

fn named(name: &str) -> Principal {
    Principal {
        name: name.into(),
        ..admin()
    }
}

#[tokio::test(start_paused = true)]
async fn going_back_to_a_snapshot_passes_every_trial() {
    let input = |world: &ClusterWorld| RestoreClusterInput {
        cluster: NAME.into(),
        snapshot: world.clusters.snapshots(NAME).unwrap()[0].id.clone(),
    };
    let done = |world: &ClusterWorld| {
        whole(world);
        let now = world.cluster(NAME);
        assert_eq!(now.spec.version, FIRST);
        let users = world.kubernetes.cluster(NAME).unwrap().users;
        let users: Vec<_> = users.into_keys().collect();
        assert_eq!(
            users,
            ["strata:stays:cluster-admin:1"],
            "who was let out stays out"
        );
    };
    let world = || long_after().boxed();
    let trial = On::<RestoreCluster>::new(world, input, done, |world, input| {
        async move {
            world.assert_owned();
            world.run::<RestoreCluster>(&input).await;
            world.assert_whole(NAME);
            world.completes(world.upgrade().await).await;
            upgraded(world);
        }
        .boxed()
    });
    trial.passes_all().await;
}

/// Whatever call to Kubernetes fails in an upgrade, and however: it serves, and
/// the same request completes.
#[tokio::test(start_paused = true)]
async fn cluster_upgrade_resumes_after_a_failure_of_every_call() {
    for (control, workers) in [(1, 2), (3, 1)] {
        for fault in [Fault::Refused, Fault::Before, Fault::After] {
            for call in 1.. {
                let many = usize::try_from(control + workers).unwrap();
                let world = ClusterWorld::running(many, control, &[("w", workers)]).await;
                let before = world.kubernetes.calls().len();
                world.kubernetes.fail_at(call, fault);
                let ended = world.wait(world.upgrade().await).await;
                let calls = world.kubernetes.calls().len() - before;
                world.kubernetes.clear_faults();
                assert!(ended.leftovers().is_empty(), "{ended:?}");
                goes_on(&world).await;
                if call as usize > calls {
                    break;
                }
            }
        }
    }
}
