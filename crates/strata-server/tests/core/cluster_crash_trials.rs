//! Operations of clusters through the trials that every kind has to pass.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_server::operations::{
    Clusters, CreateCluster, CreateClusterInput, DeleteCluster, DeleteClusterInput, HealCluster,
    HealInput, PoolChange, ScaleCluster, ScaleInput, SnapshotCluster, SnapshotInput,
};
use strata_workflow::Kind;
use strata_workflow::testing::{self, KindHarness};

use crate::cluster_world::{ClusterWorld, NAME, pools_of};

/// The input of the operation in a world.
type Asks<K> = Box<dyn Fn(&ClusterWorld) -> <K as Kind>::Input + Send + Sync>;

/// A kind on trial, in a world of its own each time.
pub(crate) struct On<K: Kind> {
    current: Mutex<Option<Arc<ClusterWorld>>>,
    world: fn() -> BoxFuture<'static, ClusterWorld>,
    input: Asks<K>,
    done: fn(&ClusterWorld),
    /// After a failure; the future tries it again.
    clean: for<'a> fn(&'a ClusterWorld, K::Input) -> BoxFuture<'a, ()>,
}

impl<K: Kind<Context = Clusters> + Default> On<K> {
    pub(crate) fn new(
        world: fn() -> BoxFuture<'static, ClusterWorld>,
        input: impl Fn(&ClusterWorld) -> K::Input + Send + Sync + 'static,
        done: fn(&ClusterWorld),
        clean: for<'a> fn(&'a ClusterWorld, K::Input) -> BoxFuture<'a, ()>,
    ) -> Self {
        Self {
            current: Mutex::default(),
            world,
            input: Box::new(input),
            done,
            clean,
        }
    }

    fn current(&self) -> Arc<ClusterWorld> {
        self.current.lock().unwrap().clone().unwrap()
    }

    pub(crate) async fn passes_all(&self) {
        testing::every_step_twice(self).await;
        testing::fail_and_undo_twice(self).await;
        testing::cancel_at_every_step(self).await;
        testing::crash_at_every_step(self).await;
    }

    /// Of a kind that goes only forward.
    pub(crate) async fn passes_without_undoing_twice(&self) {
        testing::every_step_twice(self).await;
        testing::fail_at_every_step(self).await;
        testing::cancel_at_every_step(self).await;
        testing::crash_at_every_step(self).await;
    }
}

impl<K: Kind<Context = Clusters> + Default> KindHarness for On<K> {
    type Kind = K;

    fn kind(&self) -> K {
        K::default()
    }

    fn world(&self) -> BoxFuture<'_, Arc<Clusters>> {
        async {
            let world = Arc::new((self.world)().await);
            let clusters = world.clusters.clone();
            *self.current.lock().unwrap() = Some(world);
            clusters
        }
        .boxed()
    }

    fn input(&self, _: &Clusters) -> K::Input {
        (self.input)(&self.current())
    }

    fn done<'a>(&'a self, _: &'a Clusters) -> BoxFuture<'a, ()> {
        async { (self.done)(&self.current()) }.boxed()
    }

    fn clean<'a>(&'a self, _: &'a Clusters) -> BoxFuture<'a, ()> {
        async {
            let world = self.current();
            let input = (self.input)(&world);
            (self.clean)(&world, input).await;
        }
        .boxed()
    }
}

pub(crate) fn whole(world: &ClusterWorld) {
    world.assert_whole(NAME);
}

fn creating(world: fn() -> BoxFuture<'static, ClusterWorld>) -> On<CreateCluster> {
    let input = |world: &ClusterWorld| {
        let cluster = world.cluster(NAME);
        let machines = cluster.members.iter().map(|it| it.machine.to_string());
        CreateClusterInput {
            cluster: NAME.into(),
            id: cluster.id.clone(),
            machines: machines.collect(),
        }
    };
    On::new(world, input, whole, |world, _| {
        async {
            world.assert_nothing();
            let cluster = world.cluster(NAME);
            assert!(cluster.members.is_empty(), "{cluster:?}");
            world.delete(NAME).await;
        }
        .boxed()
    })
}

#[tokio::test(start_paused = true)]
async fn creating_a_small_cluster_passes_every_trial() {
    let world = || {
        async {
            let world = ClusterWorld::without_creating(3).await;
            world.ask(NAME, 1, &[("w", 1)]).await.unwrap_err();
            world
        }
        .boxed()
    };
    creating(world).passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn creating_a_cluster_passes_every_trial() {
    let world = || {
        async {
            let world = ClusterWorld::without_creating(6).await;
            let asked = world.ask(NAME, 3, &[("a", 1), ("b", 1)]);
            asked.await.unwrap_err();
            world
        }
        .boxed()
    };
    creating(world).passes_all().await;
}

/// A trial of a change, which comes again after a failure and works then.
fn scaling(
    world: fn() -> BoxFuture<'static, ClusterWorld>,
    change: PoolChange,
    done: fn(&ClusterWorld),
) -> On<ScaleCluster> {
    let input = move |_: &ClusterWorld| ScaleInput {
        cluster: NAME.into(),
        change: change.clone(),
        accepted: String::new(),
    };
    On::new(world, input, done, |world, input| {
        async move {
            let mut now = world.cluster(NAME);
            world.assert_owned();
            // All of it is there, and nothing else is.
            now.failure = None;
            for pool in &now.spec.pools {
                let has = now.members.iter().filter(|it| it.pool == pool.name);
                assert_eq!(has.count(), pool.count as usize, "{now:?}");
            }
            assert!(now.members.iter().all(|it| it.joined), "{now:?}");
            world.run::<ScaleCluster>(&input).await;
            world.assert_whole(NAME);
        }
        .boxed()
    })
}

fn one_and_one() -> BoxFuture<'static, ClusterWorld> {
    ClusterWorld::running(5, 1, &[("w", 1)]).boxed()
}

fn two_pools() -> BoxFuture<'static, ClusterWorld> {
    ClusterWorld::running(6, 1, &[("a", 2), ("b", 1)]).boxed()
}

#[tokio::test(start_paused = true)]
async fn adding_a_pool_passes_every_trial() {
    let change = PoolChange::Add(pools_of(&[("x", 2)]));
    let trial = scaling(one_and_one, change, |world| {
        whole(world);
        assert_eq!(world.of_pool(NAME, "x").len(), 2);
    });
    trial.passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_pool_passes_every_trial() {
    let change = PoolChange::Delete(vec!["a".into()]);
    let trial = scaling(two_pools, change, |world| {
        whole(world);
        assert_eq!(world.cluster(NAME).spec.pools, pools_of(&[("b", 1)]));
    });
    trial.passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn growing_a_pool_passes_every_trial() {
    let change = PoolChange::Scale(vec![("w".into(), 3)]);
    let trial = scaling(one_and_one, change, |world| {
        whole(world);
        assert_eq!(world.of_pool(NAME, "w").len(), 3);
    });
    trial.passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn shrinking_a_pool_passes_every_trial() {
    let change = PoolChange::Scale(vec![("a".into(), 0)]);
    let trial = scaling(two_pools, change, |world| {
        whole(world);
        assert_eq!(world.of_pool(NAME, "a").len(), 0);
    });
    trial.passes_all().await;
}

#[tokio::test(start_paused = true)]
async fn growing_one_pool_and_shrinking_another_passes_every_trial() {
    let change = PoolChange::Scale(vec![("a".into(), 1), ("b".into(), 2)]);
    let trial = scaling(two_pools, change, |world| {
        whole(world);
        let sizes = ["a", "b"].map(|pool| world.of_pool(NAME, pool).len());
        assert_eq!(sizes, [1, 2]);
    });
    trial.passes_all().await;
}

/// A trial of a cure; the next one finishes what failed.
fn healing(world: fn() -> BoxFuture<'static, ClusterWorld>, dead: &'static str) -> On<HealCluster> {
    let input = move |_: &ClusterWorld| HealInput {
        cluster: NAME.into(),
        dead: vec![dead.into()],
    };
    On::new(world, input, whole, |world, input: HealInput| {
        async move {
            world.assert_owned();
            world.heal(NAME, &input.dead).await;
            world.assert_whole(NAME);
            assert!(world.cluster(NAME).member(&input.dead[0]).is_none());
        }
        .boxed()
    })
}

/// A world in which a caller of a pool is dead, with one machine to spare.
async fn with_a_dead(control: u32, workers: u32, pool: &str, dead: &str) -> ClusterWorld {
    let many = usize::try_from(control + workers).unwrap() + 1;
    let world = ClusterWorld::running(many, control, &[("w", workers)]).await;
    let of = world.of_pool(NAME, pool);
    assert!(of.iter().any(|id| id == dead), "{of:?}");
    world.kill(dead).await;
    world
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

#[tokio::test(start_paused = true)]
async fn deleting_a_cluster_passes_every_trial() {
    let gone = |world: &ClusterWorld| {
        assert!(world.core.clusters().is_empty());
        world.assert_nothing();
    };
    let input = |world: &ClusterWorld| {
        let id = world.core.cluster(NAME).map(|now| now.id.clone());
        DeleteClusterInput {
            cluster: NAME.into(),
            id: id.unwrap_or_default(),
        }
    };
    let world = || ClusterWorld::running(4, 3, &[("w", 1)]).boxed();
    // There is no rollback: what was begun is finished by the next one.
    let trial = On::<DeleteCluster>::new(world, input, gone, |world, _| {
        async {
            match world.core.cluster(NAME) {
                Ok(_) => world.delete(NAME).await,
                Err(_) => world.assert_nothing(),
            }
        }
        .boxed()
    });
    trial.passes_without_undoing_twice().await;
}

#[tokio::test(start_paused = true)]
async fn keeping_a_snapshot_passes_every_trial() {
    let done = |world: &ClusterWorld| {
        whole(world);
        assert!(!world.clusters.snapshots(NAME).unwrap().is_empty());
    };
    let input = |_: &ClusterWorld| SnapshotInput {
        cluster: NAME.into(),
        reason: "asked".into(),
    };
    let trial = On::<SnapshotCluster>::new(one_and_one, input, done, |world, _| {
        async { world.assert_whole(NAME) }.boxed()
    });
    trial.passes_without_undoing_twice().await;
}
