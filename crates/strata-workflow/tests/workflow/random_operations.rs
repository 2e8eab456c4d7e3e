//! Random histories: plans that fail, stumble and stick, engines that die, a
//! store that does not answer, people who cancel. In the end each operation is
//! wholly done or wholly undone, and at no time do two hold what only one may
//! have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::scripted::{Act, Failure, Script, ScriptStage, Scripted};
use crate::support::{soon, until};
use futures_util::{FutureExt as _, StreamExt as _};
use proptest::prelude::*;
use strata_store::{Change, Memory, Store};
use strata_workflow::testing::{CrashPoint, CrashingStore};
use strata_workflow::{
    Claim, Mode, Operation, OperationId, Operations, Registry, Settings, State, Workflow,
};

const BATCH_SIZE: usize = 3;

#[derive(Clone, Debug)]
struct Story {
    scripts: Vec<Script>,
    /// Engines that die after so many writes.
    deaths: Vec<(usize, bool)>,
    /// Which operations to cancel, after how many turns.
    cancels: Vec<(usize, u32)>,
    /// Writes that get no answer at the start of each engine.
    unheard: Option<bool>,
}

fn act() -> impl Strategy<Value = Act> {
    let fails = prop_oneof![
        8 => Just(Failure::Never),
        1 => Just(Failure::BeforeEffect),
        1 => Just(Failure::AfterEffect),
    ];
    let sticks = prop_oneof![4 => Just(0u32), 1 => 1..3u32];
    let stumbles = prop_oneof![3 => Just(0u32), 1 => 1..5u32];
    (fails, stumbles, sticks, 0..6u32).prop_map(|(fails, stumbles, sticks, turns)| Act {
        fails,
        stumbles,
        sticks,
        turns,
    })
}

fn script() -> impl Strategy<Value = Script> {
    let claim = (0..3u8, any::<bool>()).prop_map(|(key, shared)| match shared {
        true => Claim::shared(format!("k{key}")),
        false => Claim::exclusive(format!("k{key}")),
    });
    let claims = prop::collection::vec(claim, 0..3);
    let acts = prop::collection::vec(act(), 1..5);
    (claims, acts, any::<bool>()).prop_map(|(claims, acts, grows)| Script {
        claims,
        acts,
        grows,
    })
}

fn story() -> impl Strategy<Value = Story> {
    (
        prop::collection::vec(script(), 1..6),
        prop::collection::vec((0..12usize, any::<bool>()), 0..5),
        prop::collection::vec((0..6usize, 0..200u32), 0..4),
        prop::option::weighted(0.2, any::<bool>()),
    )
        .prop_map(|(scripts, deaths, cancels, unheard)| Story {
            scripts,
            deaths,
            cancels,
            unheard,
        })
}

struct Reported {
    operations: Vec<Operation>,
    /// Those whose request to cancel was accepted.
    cancelled: Vec<OperationId>,
    theatre: Arc<ScriptStage>,
    store: Arc<Memory>,
}

async fn tell(story: Story) -> Reported {
    let store = Arc::new(Memory::new());
    let theatre = Arc::new(ScriptStage::default());
    let on = |store: Arc<dyn Store>| {
        let mut registry = Registry::new();
        registry.register(Scripted, theatre.clone()).unwrap();
        Operations::new(store, registry)
    };
    let asking = on(store.clone());
    let mut ids = Vec::new();
    for script in &story.scripts {
        ids.push(
            asking
                .submit::<Scripted>(script, "ann", None)
                .await
                .unwrap(),
        );
    }
    let mut cancels = tokio::task::JoinSet::new();
    for (who, turns) in story.cancels.clone() {
        let (asking, id) = (asking.clone(), ids[who % ids.len()]);
        cancels.spawn(async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            asking.cancel(id, "bob").await.ok().map(|_| id)
        });
    }
    let settings = Settings {
        at_once: BATCH_SIZE,
        cleanup_every: Duration::from_millis(1),
        progress_every: Duration::ZERO,
        ..Settings::default()
    };
    let all_ended = async || {
        for id in &ids {
            asking.wait(*id).await.unwrap();
        }
    };
    for (commits, effect) in story.deaths {
        let death = if effect {
            CrashPoint::AfterEffect
        } else {
            CrashPoint::BeforeEffect
        };
        match story.unheard {
            Some(true) => store.fail_after(1),
            Some(false) => store.fail_before(1),
            None => {}
        }
        let crashing_store = Arc::new(CrashingStore::new(store.clone(), commits, death));
        let operations = on(crashing_store.clone() as Arc<dyn Store>);
        let engine = Workflow::open(operations, settings.clone()).await.unwrap();
        tokio::select! {
            () = crashing_store.crashed() => {}
            () = soon(all_ended()) => {}
        }
        soon(engine.shutdown()).await;
    }
    let engine = Workflow::open(on(store.clone()), settings).await.unwrap();
    soon(all_ended()).await;
    let cancelled = soon(cancels.join_all()).await;
    until("all is cleaned up", async || {
        let status = engine.status();
        let mut clean = status.running == 0;
        for id in &ids {
            clean &= !asking.get(*id).await.unwrap().holds_claims();
        }
        clean
    })
    .await;
    assert!(engine.status().parked.is_empty());
    engine.shutdown().await;
    let mut operations = Vec::new();
    for id in ids {
        operations.push(asking.get(id).await.unwrap());
    }
    Reported {
        operations,
        cancelled: cancelled.into_iter().flatten().collect(),
        theatre,
        store,
    }
}

fn all_or_nothing(reported: &Reported, scripts: &[Script]) {
    let things = reported.theatre.things.lock().unwrap();
    for (operation, script) in reported.operations.iter().zip(scripts) {
        let there = things.iter().filter(|(id, _)| *id == operation.id).count();
        match &operation.state {
            State::Completed { .. } => {
                assert_eq!(there, script.acts.len());
                assert!(!reported.cancelled.contains(&operation.id));
            }
            State::Failed { .. } => {
                assert_eq!(there, 0, "left: {operation:?}");
                assert_eq!(operation.leftovers(), []);
            }
            other => panic!("not ended: {other:?}"),
        }
    }
}

fn rank(operation: &Operation) -> u8 {
    match operation.state {
        State::Scheduled => 0,
        State::Active { .. } => 1,
        State::Unwinding { .. } => 2,
        State::Completed { .. } => 3,
        State::Failed { .. } => 4,
    }
}

/// Observes every change of the store.
async fn never_two_at_once(store: &Memory) {
    let mut changes = store.watch("operation/", 0).await.unwrap();
    let mut now: BTreeMap<OperationId, Operation> = BTreeMap::new();
    while let Some(Some(changes)) = changes.next().now_or_never() {
        for change in changes.unwrap().changes {
            let Change::Put(entry) = change else {
                panic!("nothing is forgotten")
            };
            let operation: Operation = serde_json::from_slice(&entry.value).unwrap();
            if let Some(before) = now.get(&operation.id) {
                assert!(rank(before) <= rank(&operation), "{before:?} {operation:?}");
                assert!(rank(before) != 3 || before == &operation);
            }
            now.insert(operation.id, operation);
        }
        let holders: Vec<_> = now.values().filter(|it| it.holds_claims()).collect();
        for (n, one) in holders.iter().enumerate() {
            for other in &holders[..n] {
                assert!(!in_the_way(one, other), "{one:?} {other:?}");
            }
        }
    }
}

fn in_the_way(one: &Operation, other: &Operation) -> bool {
    one.claims.iter().any(|mine| {
        let mut theirs = other.claims.iter();
        theirs.any(|it| it.key == mine.key && (it.mode, mine.mode) != (Mode::Shared, Mode::Shared))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_operations_complete_or_roll_back(story in story(), threads in 0..3usize) {
        let mut runtime = match threads {
            0 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = runtime.worker_threads(threads.max(1)).enable_time().build().unwrap();
        runtime.block_on(async {
            let scripts = story.scripts.clone();
            let reported = tell(story).await;
            all_or_nothing(&reported, &scripts);
            never_two_at_once(&reported.store).await;
        });
    }
}
