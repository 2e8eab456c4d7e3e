//! Operations of clusters through the trials that every kind has to pass.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_clusters::sim::Fault;
use strata_server::core::Who;
use strata_server::operations::{
    Clusters, CreateCluster, CreateClusterInput, DeleteCluster, DeleteClusterInput, HealCluster,
    HealInput, PoolChange, RestoreCluster, RestoreClusterInput, ScaleCluster, ScaleInput,
    SnapshotCluster, SnapshotInput, UpgradeCluster, UpgradeInput,
};
use strata_workflow::Kind;
use strata_workflow::testing::{self, Trial};

use crate::clusters_stage::{FIRST, NAME, NEXT, Stage, pools_of};
use crate::world::admin;

/// A kind on trial, in a world of its own each time.
struct On<K: Kind> {
    stage: Mutex<Option<Arc<Stage>>>,
    world: fn() -> BoxFuture<'static, Stage>,
    input: Box<dyn Fn(&Stage) -> K::Input + Send + Sync>,
    done: fn(&Stage),
    /// After a failure; the future tries it again.
    clean: for<'a> fn(&'a Stage, K::Input) -> BoxFuture<'a, ()>,
}

impl<K: Kind<Context = Clusters> + Default> On<K> {
    fn new(
        world: fn() -> BoxFuture<'static, Stage>,
        input: impl Fn(&Stage) -> K::Input + Send + Sync + 'static,
        done: fn(&Stage),
        clean: for<'a> fn(&'a Stage, K::Input) -> BoxFuture<'a, ()>,
    ) -> Self {
        Self {
            stage: Mutex::default(),
            world,
            input: Box::new(input),
            done,
            clean,
        }
    }

    fn stage(&self) -> Arc<Stage> {
        self.stage.lock().unwrap().clone().unwrap()
    }

    async fn passes_all(&self) {
        self.passes_without_undoing_twice().await;
        testing::fail_and_undo_twice(self).await;
    }

    async fn passes_without_undoing_twice(&self) {
        testing::every_step_twice(self).await;
        testing::fail_at_every_step(self).await;
        testing::cancel_at_every_step(self).await;
        testing::die_at_every_step(self).await;
    }
}

impl<K: Kind<Context = Clusters> + Default> Trial for On<K> {
    type Kind = K;

    fn kind(&self) -> K {
        K::default()
    }

    fn world(&self) -> BoxFuture<'_, Arc<Clusters>> {
        async {
            let stage = Arc::new((self.world)().await);
            let clusters = stage.clusters.clone();
            *self.stage.lock().unwrap() = Some(stage);
            clusters
        }
        .boxed()
    }

    fn input(&self, _: &Clusters) -> K::Input {
        (self.input)(&self.stage())
    }

    fn done<'a>(&'a self, _: &'a Clusters) -> BoxFuture<'a, ()> {
        async { (self.done)(&self.stage()) }.boxed()
    }

    fn clean<'a>(&'a self, _: &'a Clusters) -> BoxFuture<'a, ()> {
        async {
            let stage = self.stage();
            let input = (self.input)(&stage);
            (self.clean)(&stage, input).await;
        }
        .boxed()
    }
}

fn whole(stage: &Stage) {
    stage.assert_whole(NAME);
}

fn creating(world: fn() -> BoxFuture<'static, Stage>) -> On<CreateCluster> {
    let input = |stage: &Stage| {
        let cluster = stage.cluster(NAME);
        let machines = cluster.members.iter().map(|it| it.machine.to_string());
        CreateClusterInput {
            cluster: NAME.into(),
            id: cluster.id.clone(),
            machines: machines.collect(),
        }
    };
    On::new(world, input, whole, |stage, _| {
        async {
            stage.assert_nothing();
            let cluster = stage.cluster(NAME);
            assert!(cluster.members.is_empty(), "{cluster:?}");
            stage.delete(NAME).await;
        }
        .boxed()
    })
}

#[tokio::test(start_paused = true)]
async fn creating_a_small_cluster_passes_every_trial() {
    let world = || {
        async {
            let stage = Stage::without_creating(3).await;
            stage.ask(NAME, 1, &[("w", 1)]).await.unwrap_err();
            stage
        }
        .boxed()
    };
    creating(world).passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn creating_a_cluster_passes_every_trial() {
    let world = || {
        async {
            let stage = Stage::without_creating(6).await;
            let asked = stage.ask(NAME, 3, &[("a", 1), ("b", 1)]);
            asked.await.unwrap_err();
            stage
        }
        .boxed()
    };
    creating(world).passes_all().await;
}

/// A trial of a change, which comes again after a failure and works then.
fn scaling(
    world: fn() -> BoxFuture<'static, Stage>,
    change: PoolChange,
    done: fn(&Stage),
) -> On<ScaleCluster> {
    let input = move |_: &Stage| ScaleInput {
        cluster: NAME.into(),
        change: change.clone(),
    };
    On::new(world, input, done, |stage, input| {
        async move {
            let mut now = stage.cluster(NAME);
            stage.assert_owned();
            // All of it is there, and nothing else is.
            now.failure = None;
            for pool in &now.spec.pools {
                let has = now.members.iter().filter(|it| it.pool == pool.name);
                assert_eq!(has.count(), pool.count as usize, "{now:?}");
            }
            assert!(now.members.iter().all(|it| it.joined), "{now:?}");
            stage.run::<ScaleCluster>(&input).await;
            stage.assert_whole(NAME);
        }
        .boxed()
    })
}

fn one_and_one() -> BoxFuture<'static, Stage> {
    Stage::running(5, 1, &[("w", 1)]).boxed()
}

fn two_pools() -> BoxFuture<'static, Stage> {
    Stage::running(6, 1, &[("a", 2), ("b", 1)]).boxed()
}

#[tokio::test(start_paused = true)]
async fn adding_a_pool_passes_every_trial() {
    let change = PoolChange::Add(pools_of(&[("x", 2)]));
    let trial = scaling(one_and_one, change, |stage| {
        whole(stage);
        assert_eq!(stage.of_pool(NAME, "x").len(), 2);
    });
    trial.passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_pool_passes_every_trial() {
    let change = PoolChange::Delete(vec!["a".into()]);
    let trial = scaling(two_pools, change, |stage| {
        whole(stage);
        assert_eq!(stage.cluster(NAME).spec.pools, pools_of(&[("b", 1)]));
    });
    trial.passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn growing_a_pool_passes_every_trial() {
    let change = PoolChange::Scale(vec![("w".into(), 3)]);
    let trial = scaling(one_and_one, change, |stage| {
        whole(stage);
        assert_eq!(stage.of_pool(NAME, "w").len(), 3);
    });
    trial.passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn shrinking_a_pool_passes_every_trial() {
    let change = PoolChange::Scale(vec![("a".into(), 0)]);
    let trial = scaling(two_pools, change, |stage| {
        whole(stage);
        assert_eq!(stage.of_pool(NAME, "a").len(), 0);
    });
    trial.passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn growing_one_pool_and_shrinking_another_passes_every_trial() {
    let change = PoolChange::Scale(vec![("a".into(), 1), ("b".into(), 2)]);
    let trial = scaling(two_pools, change, |stage| {
        whole(stage);
        let sizes = ["a", "b"].map(|pool| stage.of_pool(NAME, pool).len());
        assert_eq!(sizes, [1, 2]);
    });
    trial.passes_all().await;
}

/// A trial of a cure; the next one finishes what failed.
fn healing(world: fn() -> BoxFuture<'static, Stage>, dead: &'static str) -> On<HealCluster> {
    let input = move |_: &Stage| HealInput {
        cluster: NAME.into(),
        dead: vec![dead.into()],
    };
    On::new(world, input, whole, |stage, input: HealInput| {
        async move {
            stage.assert_owned();
            stage.heal(NAME, &input.dead).await;
            stage.assert_whole(NAME);
            assert!(stage.cluster(NAME).member(&input.dead[0]).is_none());
        }
        .boxed()
    })
}

/// A world in which somebody of a pool is dead, with one machine to spare.
async fn with_a_dead(control: u32, workers: u32, pool: &str, dead: &str) -> Stage {
    let many = usize::try_from(control + workers).unwrap() + 1;
    let stage = Stage::running(many, control, &[("w", workers)]).await;
    let of = stage.of_pool(NAME, pool);
    assert!(of.iter().any(|id| id == dead), "{of:?}");
    stage.kill(dead).await;
    stage
}

#[tokio::test(start_paused = true)]
async fn replacing_a_worker_passes_every_trial() {
    let world = || with_a_dead(1, 2, "w", "m2").boxed();
    healing(world, "m2").passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn replacing_one_of_three_that_control_passes_every_trial() {
    let world = || with_a_dead(3, 1, "", "m1").boxed();
    healing(world, "m1").passes_all().await;
}

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

#[tokio::test(start_paused = true)]
async fn deleting_a_cluster_passes_every_trial() {
    let gone = |stage: &Stage| {
        assert!(stage.core.clusters().is_empty());
        stage.assert_nothing();
    };
    let input = |stage: &Stage| {
        let id = stage.core.cluster(NAME).map(|now| now.id.clone());
        DeleteClusterInput {
            cluster: NAME.into(),
            id: id.unwrap_or_default(),
        }
    };
    let world = || Stage::running(4, 3, &[("w", 1)]).boxed();
    // There is no way back: what was begun is finished by the next one.
    let trial = On::<DeleteCluster>::new(world, input, gone, |stage, _| {
        async {
            match stage.core.cluster(NAME) {
                Ok(_) => stage.delete(NAME).await,
                Err(_) => stage.assert_nothing(),
            }
        }
        .boxed()
    });
    trial.passes_without_undoing_twice().await;
}

#[tokio::test(start_paused = true)]
async fn keeping_a_snapshot_passes_every_trial() {
    let done = |stage: &Stage| {
        whole(stage);
        assert!(!stage.clusters.snapshots(NAME).unwrap().is_empty());
    };
    let input = |_: &Stage| SnapshotInput {
        cluster: NAME.into(),
        reason: "asked".into(),
    };
    let trial = On::<SnapshotCluster>::new(one_and_one, input, done, |stage, _| {
        async { stage.assert_whole(NAME) }.boxed()
    });
    trial.passes_without_undoing_twice().await;
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
        assert_eq!(users, ["strata:stays:1"], "who was let out stays out");
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
