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

use crate::clusters_stage::{NAME, Stage, VERSIONS, pools_of};
use crate::world::admin;

/// Each on a clock of its own.
const THREADS: u64 = 2;
/// What takes longer is killed, or called off.
const PATIENCE: Duration = Duration::from_secs(90);

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
    let stage = Stage::new(7).await;
    set_faults(&stage, seed);
    let control = [1, 1, 3][chance.random_range(0..3)];
    let workers = chance.random_range(0..3);
    act(
        &stage,
        stage.ask(NAME, control, &[("a", workers)]).await,
        &mut chance,
        ends,
    )
    .await;
    let busy = seed % 2 == 1;
    for _ in 0..chance.random_range(1..4) {
        if busy {
            put_pods(&stage, 2);
        }
        // Whoever looks after clusters does so at any time.
        if chance.random_bool(0.3) {
            look_at_clusters(&stage.clusters).await;
        }
        let asked = ask(&stage, busy, &mut chance).await;
        act(&stage, asked, &mut chance, ends).await;
    }
    stage.kubernetes.clear_faults();
    stage.machines.clear_faults();
    // Nobody waits for pods that have nowhere to go.
    put_pods(&stage, 0);
    // Calls that were never answered end with the engine.
    stage.restart().await;
    at_rest(&stage).await;
    look_at_clusters(&stage.clusters).await;
    at_rest(&stage).await;
    stage.assert_owned();
    cure(&stage).await;
    if stage.core.cluster(NAME).is_ok() {
        stage.delete(NAME).await;
    }
    stage.assert_nothing();
}

/// What still serves can be made whole, as far as there are machines.
async fn cure(stage: &Stage) {
    let Ok(cluster) = stage.core.cluster(NAME) else {
        return;
    };
    let serves = stage.serves(NAME).await;
    if cluster.work == Work::Deleting || !serves {
        return;
    }
    let machines = stage.machines.machines();
    let dead = cluster.members.iter().map(|it| it.machine.to_string());
    let dead: Vec<_> = dead.filter(|id| !machines[id].on).collect();
    let free = stage.core.machines();
    let free = free.iter().filter(|it| it.cluster.is_none()).count();
    if dead.len() <= free {
        stage.heal(NAME, &dead).await;
        // Why a change failed stays said until another is asked for.
        let forget = |record: &mut serde_json::Value| record["failure"] = serde_json::Value::Null;
        stage.rewrite(NAME, forget).await;
        stage.assert_whole(NAME);
    }
}

/// Workers have something to do: they have to be emptied before they go.
fn put_pods(stage: &Stage, pods: u32) {
    for (id, node) in stage.kubernetes.nodes(NAME) {
        if node.role == ClusterRole::Worker {
            stage.kubernetes.set_pods(NAME, &id, pods);
        }
    }
}

/// One call in twenty goes wrong, in one of all ways.
fn set_faults(stage: &Stage, seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed ^ 0xa5a5);
    stage
        .kubernetes
        .set_faults(move |_, _| match chance.random_range(0..200) {
            0..4 => Fault::Before,
            4..8 => Fault::After,
            8..10 => Fault::Refused,
            10 => Fault::DieBefore,
            11 => Fault::DieAfter,
            _ => Fault::None,
        });
    let mut chance = StdRng::seed_from_u64(seed ^ 0x5a5a);
    stage
        .machines
        .set_faults(move |call, _| match chance.random_range(0..100) {
            0..2 => MachineFault::Before,
            2..4 => MachineFault::After,
            // What is refused for good is never the way back: that has to end.
            4 if call == "boot" || call == "wait" => MachineFault::Refused,
            _ => MachineFault::None,
        });
}

/// Asks for something.
async fn ask(stage: &Stage, busy: bool, chance: &mut StdRng) -> Result<OperationId> {
    let (own, who) = (&stage.clusters, admin());
    let pool = ["a", "b"][chance.random_range(0..2)].to_owned();
    let count = chance.random_range(0..4);
    match chance.random_range(0..10) {
        0 | 1 => own.scale_pools(&who, NAME, vec![(pool, count)]).await,
        2 => own.add_pools(&who, NAME, pools_of(&[("b", count)])).await,
        3 => own.delete_pools(&who, NAME, vec![pool]).await,
        // A single worker is upgraded with its pods, which is not played.
        4 | 5 if !busy => {
            let to = VERSIONS[chance.random_range(0..VERSIONS.len())].to_string();
            own.upgrade(&who, NAME, &to).await
        }
        4..8 => {
            let cluster = stage.core.cluster(NAME)?;
            let many = cluster.members.len().max(1);
            let dead = cluster.members.get(chance.random_range(0..many));
            let dead: Vec<_> = dead.iter().map(|it| it.machine.to_string()).collect();
            for id in &dead {
                stage.kill(id).await;
            }
            let input = HealInput {
                cluster: NAME.into(),
                dead,
            };
            let begun = stage.operations.submit::<HealCluster>(&input, "test", None);
            Ok(begun.await.unwrap())
        }
        8 => own.snapshot(&who, NAME).await,
        _ => match own.restore(&who, NAME, "latest").await {
            Err(_) => own.delete(&who, NAME).await,
            begun => begun,
        },
    }
}

/// Waits for the end of it, not always patiently.
async fn act(stage: &Stage, asked: Result<OperationId>, chance: &mut StdRng, ends: &mut Ends) {
    let Ok(id) = asked else {
        ends.refused += 1;
        return;
    };
    if chance.random_ratio(1, 3) {
        for _ in 0..chance.random_range(0..600) {
            tokio::task::yield_now().await;
        }
        stage.restart().await;
    }
    if chance.random_ratio(1, 12) {
        // Somebody does not wait: the next one has to.
        return;
    }
    for _ in 0..200 {
        let ended = tokio::time::timeout(PATIENCE, stage.operations.wait(id)).await;
        if let Ok(ended) = ended {
            match ended.unwrap().state {
                State::Completed { .. } => ends.good += 1,
                _ => ends.bad += 1,
            }
            return;
        }
        if chance.random_bool(0.5) {
            drop(stage.operations.cancel(id, "test").await);
        }
        stage.restart().await;
    }
    panic!("it does not end: {:?}", stage.operations.get(id).await);
}

/// Until nothing runs any more, and nothing is left to undo.
async fn at_rest(stage: &Stage) {
    for _ in 0..2000 {
        let all = stage.operations.list(&Filter::default()).await.unwrap();
        let busy = |it: &&strata_workflow::Operation| !it.has_ended() || it.holds_claims();
        let Some(one) = all.iter().find(busy) else {
            return;
        };
        let waited = Duration::from_secs(30);
        if !one.has_ended() {
            drop(tokio::time::timeout(waited, stage.operations.wait(one.id)).await);
        } else {
            tokio::time::sleep(waited).await;
        }
    }
    let all = stage.operations.list(&Filter::default()).await.unwrap();
    let left: Vec<_> = all
        .iter()
        .filter(|it| !it.has_ended() || it.holds_claims())
        .collect();
    panic!("it does not come to rest: {left:?}");
}
