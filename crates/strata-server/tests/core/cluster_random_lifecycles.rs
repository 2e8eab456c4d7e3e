//! Random lives of clusters: created, changed, upgraded, rolled back, with
//! machines that die, calls that fail and an engine that is killed. When the
//! faults end, each can be deleted, and every machine is back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use strata_clusters::sim::Fault;
use strata_machines::sim::Fault as MachineFault;
use strata_server::core::Work;
use strata_server::operations::{HealCluster, HealInput};
use strata_server::reconcile::look_at_clusters;
use strata_testkit::rounds;
use strata_types::Result;
use strata_types::cluster::ClusterRole;
use strata_workflow::{Filter, OperationId, State};

use crate::cluster_world::{ClusterWorld, NAME, VERSIONS, pools_of};
use crate::world::admin;

/// Each on a clock of its own.
const THREADS: u64 = 2;
/// What takes longer is killed, or cancelled.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

#[test]
fn random_lives_lose_no_machine_and_leave_nothing() {
    let lives = rounds(200, 5000);
    let threads = (0..THREADS).map(|thread| {
        std::thread::spawn(move || {
            let mut ends = Ends::default();
            for seed in (thread..lives).step_by(THREADS as usize) {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .start_paused(true)
                    .build()
                    .unwrap();
                let life = AssertUnwindSafe(|| runtime.block_on(live(seed, &mut ends)));
                assert!(
                    catch_unwind(life).is_ok(),
                    "something was wrong in life {seed}"
                );
            }
            ends
        })
    });
    let threads: Vec<_> = threads.collect();
    let ends = threads.into_iter().map(|thread| thread.join().unwrap());
    let all = ends.fold(Ends::default(), |a, b| Ends {
        good: a.good + b.good,
        bad: a.bad + b.bad,
        refused: a.refused + b.refused,
    });
    assert!(
        all.good > lives && all.bad > lives * 3 / 10,
        "the faults struck: {all:?}"
    );
}

/// How operations ended.
#[derive(Debug, Default)]
struct Ends {
    good: u64,
    bad: u64,
    refused: u64,
}

async fn live(seed: u64, ends: &mut Ends) {
    let mut chance = StdRng::seed_from_u64(seed);
    let world = ClusterWorld::new(7).await;
    set_faults(&world, seed);
    let control = [1, 1, 3][chance.random_range(0..3)];
    let workers = chance.random_range(0..3);
    act(
        &world,
        world.ask(NAME, control, &[("a", workers)]).await,
        &mut chance,
        ends,
    )
    .await;
    let busy = seed % 2 == 1;
    for _ in 0..chance.random_range(1..4) {
        if busy {
            put_pods(&world, 2);
        }
        // The reconciler of clusters runs at any time.
        if chance.random_bool(0.3) {
            look_at_clusters(&world.clusters).await;
        }
        let asked = ask(&world, busy, &mut chance).await;
        act(&world, asked, &mut chance, ends).await;
    }
    world.kubernetes.clear_faults();
    world.machines.clear_faults();
    // Nothing waits for pods that have nowhere to go.
    put_pods(&world, 0);
    // Calls that were never answered end with the engine.
    world.restart().await;
    at_rest(&world).await;
    look_at_clusters(&world.clusters).await;
    at_rest(&world).await;
    world.assert_owned();
    remediation(&world).await;
    if world.core.cluster(NAME).is_ok() {
        world.delete(NAME).await;
    }
    world.assert_nothing();
}

/// What still serves can be made whole, as far as there are machines.
async fn remediation(world: &ClusterWorld) {
    let Ok(cluster) = world.core.cluster(NAME) else {
        return;
    };
    let serves = world.serves(NAME).await;
    if cluster.work == Work::Deleting || !serves {
        return;
    }
    let machines = world.machines.machines();
    let dead = cluster.members.iter().map(|it| it.machine.to_string());
    let dead: Vec<_> = dead.filter(|id| !machines[id].on).collect();
    let free = world.core.machines();
    let free = free.iter().filter(|it| it.cluster.is_none()).count();
    if dead.len() <= free {
        world.heal(NAME, &dead).await;
        // Why a change failed stays visible until another is requested.
        let forget = |record: &mut serde_json::Value| record["failure"] = serde_json::Value::Null;
        world.rewrite(NAME, forget).await;
        world.assert_whole(NAME);
    }
}

/// Workers have something to do: they have to be emptied before they go.
fn put_pods(world: &ClusterWorld, pods: u32) {
    for (id, node) in world.kubernetes.nodes(NAME) {
        if node.role == ClusterRole::Worker {
            world.kubernetes.set_pods(NAME, &id, pods);
        }
    }
}

/// One call in twenty goes wrong, in one of all ways.
fn set_faults(world: &ClusterWorld, seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed ^ 0xa5a5);
    world
        .kubernetes
        .set_faults(move |_, _| match chance.random_range(0..200) {
            0..4 => Fault::Before,
            4..8 => Fault::After,
            8..10 => Fault::Refused,
            10 => Fault::CrashBefore,
            11 => Fault::CrashAfter,
            _ => Fault::None,
        });
    let mut chance = StdRng::seed_from_u64(seed ^ 0x5a5a);
    world
        .machines
        .set_faults(move |call, _| match chance.random_range(0..100) {
            0..2 => MachineFault::Before,
            2..4 => MachineFault::After,
            // What is refused permanently is never the rollback: that has to
            // end.
            4 if call == "boot" || call == "wait" => MachineFault::Refused,
            _ => MachineFault::None,
        });
}

/// Requests a random change.
async fn ask(world: &ClusterWorld, busy: bool, chance: &mut StdRng) -> Result<OperationId> {
    let (own, principal) = (&world.clusters, admin());
    let pool = ["a", "b"][chance.random_range(0..2)].to_owned();
    let count = chance.random_range(0..4);
    match chance.random_range(0..10) {
        0 | 1 => own.scale_pools(&principal, NAME, vec![(pool, count)]).await,
        2 => {
            own.add_pools(&principal, NAME, pools_of(&[("b", count)]))
                .await
        }
        3 => own.delete_pools(&principal, NAME, vec![pool]).await,
        // A single worker is upgraded with its pods, which is not simulated.
        4 | 5 if !busy => {
            let to = VERSIONS[chance.random_range(0..VERSIONS.len())].to_string();
            own.upgrade(&principal, NAME, &to).await
        }
        4..8 => {
            let cluster = world.core.cluster(NAME)?;
            let many = cluster.members.len().max(1);
            let dead = cluster.members.get(chance.random_range(0..many));
            let dead: Vec<_> = dead.iter().map(|it| it.machine.to_string()).collect();
            for id in &dead {
                world.kill(id).await;
            }
            let input = HealInput {
                cluster: NAME.into(),
                dead,
            };
            let begun = world.operations.submit::<HealCluster>(&input, "test", None);
            Ok(begun.await.unwrap())
        }
        8 => own.snapshot(&principal, NAME).await,
        _ => match own.restore(&principal, NAME, "latest").await {
            Err(_) => own.delete(&principal, NAME).await,
            begun => begun,
        },
    }
}

/// Waits for the end of it, not always patiently.
async fn act(
    world: &ClusterWorld,
    asked: Result<OperationId>,
    chance: &mut StdRng,
    ends: &mut Ends,
) {
    let Ok(id) = asked else {
        ends.refused += 1;
        return;
    };
    if chance.random_ratio(1, 3) {
        for _ in 0..chance.random_range(0..600) {
            tokio::task::yield_now().await;
        }
        world.restart().await;
    }
    if chance.random_ratio(1, 12) {
        // A caller does not wait: the next one has to.
        return;
    }
    for _ in 0..200 {
        let ended = tokio::time::timeout(WAIT_TIMEOUT, world.operations.wait(id)).await;
        if let Ok(ended) = ended {
            match ended.unwrap().state {
                State::Completed { .. } => ends.good += 1,
                _ => ends.bad += 1,
            }
            return;
        }
        if chance.random_bool(0.5) {
            drop(world.operations.cancel(id, "test").await);
        }
        world.restart().await;
    }
    panic!("it does not end: {:?}", world.operations.get(id).await);
}

/// Until nothing runs any more, and nothing is left to undo.
async fn at_rest(world: &ClusterWorld) {
    for _ in 0..2000 {
        let all = world.operations.list(&Filter::default()).await.unwrap();
        let busy = |it: &&strata_workflow::Operation| !it.has_ended() || it.holds_claims();
        let Some(one) = all.iter().find(busy) else {
            return;
        };
        let waited = Duration::from_secs(30);
        if !one.has_ended() {
            drop(tokio::time::timeout(waited, world.operations.wait(one.id)).await);
        } else {
            tokio::time::sleep(waited).await;
        }
    }
    let all = world.operations.list(&Filter::default()).await.unwrap();
    let left: Vec<_> = all
        .iter()
        .filter(|it| !it.has_ended() || it.holds_claims())
        .collect();
    panic!("it does not come to rest: {left:?}");
}
