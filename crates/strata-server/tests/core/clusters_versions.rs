//! Clusters that go to another version, and back to a snapshot, through the
//! trials that every kind has to pass.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_clusters::sim::Fault;
use strata_server::core::Who;
use strata_server::operations::{
    RestoreCluster, RestoreClusterInput, UpgradeCluster, UpgradeInput,
};

use crate::clusters_stage::{FIRST, NAME, NEXT, Stage};
use crate::clusters_trials::{On, whole};
use crate::world::admin;

fn upgraded(stage: &Stage) {
    stage.assert_whole(NAME);
    let now = stage.cluster(NAME);
    assert_eq!(now.spec.version, NEXT);
    assert!(now.members.iter().all(|it| it.version == NEXT), "{now:?}");
}

/// It stops where it is: the cluster serves, its record says where it stands,
/// and the same wish goes on.
async fn goes_on(stage: &Stage) {
    stage.assert_owned();
    let now = stage.cluster(NAME);
    let played = stage.kubernetes.cluster(NAME).unwrap();
    assert_eq!(played.version, now.spec.version);
    for member in &now.members {
        let node = &played.nodes[member.machine.as_str()];
        assert_eq!(node.version, member.version);
        assert!(!node.cordoned, "{} is closed", member.machine);
    }
    let all = now.members.iter().all(|it| it.version == NEXT);
    if !(all && now.spec.version == NEXT) {
        stage.completes(stage.upgrade().await).await;
    }
    upgraded(stage);
}

fn upgrading(world: fn() -> BoxFuture<'static, Stage>) -> On<UpgradeCluster> {
    let input = |_: &Stage| UpgradeInput {
        cluster: NAME.into(),
        to: NEXT,
        accepted: String::new(),
    };
    On::new(world, input, upgraded, |stage, _| goes_on(stage).boxed())
}

#[tokio::test(start_paused = true)]
async fn upgrading_a_small_cluster_passes_every_trial() {
    let world = || Stage::running(4, 1, &[("w", 2)]).boxed();
    upgrading(world).passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn upgrading_a_cluster_passes_every_trial() {
    let world = || Stage::running(4, 3, &[("w", 1)]).boxed();
    upgrading(world).passes_all().await;
}

/// A cluster that was upgraded since its snapshot, and whose users changed.
async fn long_after() -> Stage {
    let stage = Stage::running(5, 3, &[("w", 2)]).await;
    let clusters = &stage.clusters;
    let (out, stays) = (named("out"), named("stays"));
    clusters.kubeconfig(&out, NAME, None).await.unwrap();
    let kept = clusters.snapshot(&admin(), NAME).await.unwrap();
    stage.completes(kept).await;
    clusters.revoke(&out, NAME, None).await.unwrap();
    clusters.kubeconfig(&stays, NAME, None).await.unwrap();
    stage.completes(stage.upgrade().await).await;
    stage
}

fn named(name: &str) -> Who {
    Who {
        name: name.into(),
        ..admin()
    }
}

#[tokio::test(start_paused = true)]
async fn going_back_to_a_snapshot_passes_every_trial() {
    let input = |stage: &Stage| RestoreClusterInput {
        cluster: NAME.into(),
        snapshot: stage.clusters.snapshots(NAME).unwrap()[0].id.clone(),
    };
    let done = |stage: &Stage| {
        whole(stage);
        let now = stage.cluster(NAME);
        assert_eq!(now.spec.version, FIRST);
        let users = stage.kubernetes.cluster(NAME).unwrap().users;
        let users: Vec<_> = users.into_keys().collect();
        assert_eq!(
            users,
            ["strata:stays:cluster-admin:1"],
            "who was let out stays out"
        );
    };
    let world = || long_after().boxed();
    let trial = On::<RestoreCluster>::new(world, input, done, |stage, input| {
        async move {
            stage.assert_owned();
            stage.run::<RestoreCluster>(&input).await;
            stage.assert_whole(NAME);
            stage.completes(stage.upgrade().await).await;
            upgraded(stage);
        }
        .boxed()
    });
    trial.passes_all().await;
}

/// Whatever call to Kubernetes fails in an upgrade, and however: it serves, and
/// the same wish completes.
#[tokio::test(start_paused = true)]
async fn an_upgrade_goes_on_after_a_failure_of_every_call() {
    for (control, workers) in [(1, 2), (3, 1)] {
        for fault in [Fault::Refused, Fault::Before, Fault::After] {
            for call in 1.. {
                let many = usize::try_from(control + workers).unwrap();
                let stage = Stage::running(many, control, &[("w", workers)]).await;
                let before = stage.kubernetes.calls().len();
                stage.kubernetes.fail_at(call, fault);
                let ended = stage.wait(stage.upgrade().await).await;
                let calls = stage.kubernetes.calls().len() - before;
                stage.kubernetes.clear_faults();
                assert!(ended.leftovers().is_empty(), "{ended:?}");
                goes_on(&stage).await;
                if call as usize > calls {
                    break;
                }
            }
        }
    }
}
