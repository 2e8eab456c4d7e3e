//! The life of an operation, as its submitter sees it.

use std::sync::Arc;
use std::time::Duration;

use crate::support::custom::{Custom, Stage, fail, gate, make};
use crate::support::{Build, World, at_once, engine, house, operations, soon, until};
use futures_util::StreamExt as _;
use strata_store::{Memory, Store as _, Transaction};
use strata_workflow::{
    Claim, Filter, Kind as _, Operation, Settings, State, Step, StepContext, StepError,
    WorkflowError,
};

fn is_scheduled(operation: &Operation) -> bool {
    operation.state == State::Scheduled
}

#[tokio::test]
async fn watch_shows_operation_from_scheduled_to_completed() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let asking = operations(&store, Build, &world);
    let id = asking
        .submit::<Build>(&house("h", 2), "ann", None)
        .await
        .unwrap();
    let mut snapshots = asking.watch(id).await.unwrap();
    let first = soon(snapshots.next()).await.unwrap().unwrap();
    assert!(is_scheduled(&first));
    assert_eq!(first.owner, "ann");

    let engine = engine(&store, Build, &world, Settings::default()).await;
    let rest: Vec<_> = soon(snapshots.collect()).await;
    let rest: Vec<Operation> = rest.into_iter().map(Result::unwrap).collect();
    let last = rest.last().unwrap();
    assert!(matches!(last.state, State::Completed { .. }));
    assert_eq!(last, &asking.get(id).await.unwrap());
    assert_eq!(last.steps.len(), 4, "the stair came with the plot");

    let log = asking.log(id).await.unwrap();
    let log: Vec<_> = log.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(log.first(), Some(&"submitted by ann"));
    assert_eq!(log.last(), Some(&"completed"));
    let again: Vec<_> = soon(asking.watch(id).await.unwrap().collect()).await;
    assert_eq!(again.len(), 1, "attached late: the end, once");
    engine.shutdown().await;
}

#[tokio::test]
async fn slow_watcher_gets_the_latest_snapshot() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let asking = operations(&store, Build, &world);
    let id = asking
        .submit::<Build>(&house("h", 9), "ann", None)
        .await
        .unwrap();
    let slow = asking.watch(id).await.unwrap();
    let _engine = engine(&store, Build, &world, Settings::default()).await;
    soon(asking.wait(id)).await.unwrap();
    let seen: Vec<_> = soon(slow.map(Result::unwrap).collect()).await;
    assert_eq!(seen.len(), 2, "what was first, and what was last");
    assert!(is_scheduled(&seen[0]) && seen[1].has_ended());
}

#[tokio::test]
async fn step_progress_is_published_while_the_step_runs() {
    let kind = Custom::new(|_| {
        vec![Step::new("slow", |ctx: StepContext<Custom>| async move {
            ctx.progress_to(0.25, "a quarter");
            ctx.context.passed().await;
            Ok(())
        })]
    });
    let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    let mut snapshots = asking.watch(id).await.unwrap();
    let reported = loop {
        let it = soon(snapshots.next()).await.unwrap().unwrap();
        if let Some(progress) = it.current_step().and_then(|step| step.progress()) {
            break progress.clone();
        }
    };
    assert_eq!(
        (reported.text.as_str(), reported.fraction),
        ("a quarter", Some(0.25))
    );
    drop(snapshots);
    stage.open.send_replace(true);
    let ended = soon(asking.wait(id)).await.unwrap();
    assert!(
        matches!(ended.state, State::Completed { .. }),
        "nobody watched"
    );
}

#[tokio::test]
async fn conflicting_operation_waits() {
    let kind = Custom::new(|_| vec![gate()]);
    let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let submit = async |claim| {
        let claims = vec![claim];
        asking.submit::<Custom>(&claims, "ann", None).await.unwrap()
    };
    let first = submit(Claim::shared("pool")).await;
    let beside = submit(Claim::shared("pool")).await;
    let alone = submit(Claim::exclusive("pool")).await;
    let behind = submit(Claim::shared("pool")).await;
    let other = submit(Claim::exclusive("other")).await;
    until("three run", async || engine.status().running == 3).await;
    for (id, waits) in [
        (first, false),
        (beside, false),
        (alone, true),
        (behind, true),
        (other, false),
    ] {
        assert_eq!(is_scheduled(&asking.get(id).await.unwrap()), waits);
    }
    assert_eq!(asking.waits_for(alone).await.unwrap(), [first, beside]);
    assert_eq!(asking.waits_for(behind).await.unwrap(), [alone]);
    assert_eq!(asking.waits_for(other).await.unwrap(), []);
    stage.open.send_replace(true);
    let behind = soon(asking.wait(behind)).await.unwrap();
    let alone = asking.get(alone).await.unwrap();
    assert!(alone.has_ended() && behind.steps[0].began_ms >= alone.ended_ms().unwrap());
}

#[tokio::test]
async fn concurrent_operations_are_bounded() {
    let kind = Custom::new(|_| vec![gate()]);
    let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
    let settings = Settings {
        at_once: 2,
        ..Settings::default()
    };
    let engine = kind.open_with(&store, &stage, settings).await;
    let asking = engine.operations();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(asking.submit::<Custom>(&vec![], "ann", None).await.unwrap());
    }
    until("two run", async || {
        let status = engine.status();
        (status.running, status.waiting) == (2, 3)
    })
    .await;
    stage.open.send_replace(true);
    for id in ids {
        soon(asking.wait(id)).await.unwrap();
    }
}

#[tokio::test]
async fn cancelled_operation_is_rolled_back() {
    let kind = Custom::new(|_| vec![make("a"), gate(), make("b")]);
    let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let claims = vec![Claim::exclusive("x")];
    let running = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    let waiting = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    until("a is made", async || stage.world.names() == ["a"]).await;

    let cancelled = asking.cancel(waiting, "bob").await.unwrap();
    assert_eq!(cancelled.reason().unwrap().to_string(), "cancelled");
    assert!(cancelled.has_ended() && cancelled.steps.is_empty());

    asking.cancel(running, "bob").await.unwrap();
    let ended = soon(asking.wait(running)).await.unwrap();
    assert_eq!(ended.reason().unwrap().to_string(), "cancelled");
    assert_eq!(ended.leftovers(), []);
    assert_eq!(stage.world.names(), [""; 0]);
    asking
        .cancel(running, "bob")
        .await
        .expect("asked twice is asked once");

    stage.open.send_replace(true);
    let done = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    soon(asking.wait(done)).await.unwrap();
    let late = asking.cancel(done, "bob").await;
    assert_eq!(late, Err(WorkflowError::Ended { id: done }));
}

#[tokio::test]
async fn one_idempotency_key_is_one_operation() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let asking = operations(&store, Build, &world);
    let submit = async |rooms, owner, key| {
        let house = house("h", rooms);
        asking.submit::<Build>(&house, owner, Some(key)).await
    };
    let first = submit(1, "ann", "k").await.unwrap();
    assert_eq!(submit(1, "ann", "k").await, Ok(first));
    assert_ne!(submit(1, "ann", "l").await, Ok(first));
    assert_ne!(submit(1, "bob", "k").await, Ok(first), "another's key");
    let key = "k".to_owned();
    assert_eq!(
        submit(2, "ann", "k").await,
        Err(WorkflowError::KeyReused { key, id: first })
    );
    assert_eq!(
        submit(1, "ann", "").await,
        Err(WorkflowError::BadKey { most: 128 })
    );
    let all = asking.list(&Filter::default()).await.unwrap();
    assert_eq!(all.len(), 3);
    let filter = Filter {
        owner: Some("bob".into()),
        ..Filter::default()
    };
    assert_eq!(asking.list(&filter).await.unwrap().len(), 1);
    let filter = Filter {
        claim: Some("house/h".into()),
        ended: Some(true),
        ..Filter::default()
    };
    assert_eq!(asking.list(&filter).await.unwrap().len(), 0);
}

#[tokio::test]
async fn invalid_operation_input_is_refused() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let asking = operations(&store, Build, &world);
    let wrong = asking
        .submit_value(
            Build::NAME,
            serde_json::json!({"rooms": "many"}),
            "ann",
            None,
        )
        .await;
    assert!(matches!(wrong, Err(WorkflowError::BadInput { .. })));
    let unknown = asking.submit_value("fly", ().into(), "ann", None).await;
    assert!(matches!(unknown, Err(WorkflowError::UnknownKind { .. })));
}

/// Runs one operation with these steps to its end.
async fn ended(
    steps: impl Fn() -> Vec<Step<Custom>> + Send + Sync + 'static,
) -> (Operation, Arc<Stage>) {
    let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
    let engine = Custom::new(move |_| steps()).open(&store, &stage).await;
    let asking = engine.operations();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    let operation = soon(asking.wait(id)).await.unwrap();
    engine.shutdown().await;
    (operation, stage)
}

fn reason(operation: &Operation) -> String {
    operation
        .reason()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[tokio::test]
async fn transient_step_error_is_retried() {
    let flaky = |attempts| {
        let flaky = Step::new("flaky", |ctx: StepContext<Custom>| async move {
            if ctx.attempt() < 3 {
                return Err(StepError::transient("not yet"));
            }
            Ok(ctx.attempt())
        });
        vec![make("a"), flaky.retry(at_once(attempts))]
    };
    let (completed, stage) = ended(move || flaky(3)).await;
    assert!(matches!(completed.state, State::Completed { .. }));
    assert_eq!(stage.world.names(), ["a"]);
    let (failed, stage) = ended(move || flaky(2)).await;
    assert_eq!(reason(&failed), "flaky: not yet");
    assert_eq!(stage.world.names(), [""; 0]);
}

#[tokio::test]
async fn hanging_or_panicking_step_is_rolled_back() {
    let (hangs, stage) = ended(|| {
        let hang = Step::new("hang", |ctx: StepContext<Custom>| async move {
            ctx.context.world.put("half", "");
            std::future::pending::<Result<(), _>>().await
        });
        let hang = hang.undo(|ctx: StepContext<Custom>| async move {
            ctx.context.world.take("half");
            Ok(())
        });
        vec![hang.timeout(Duration::from_millis(10)).retry(at_once(2))]
    })
    .await;
    assert_eq!(reason(&hangs), "hang: not done after 10ms");
    assert_eq!(stage.world.names(), [""; 0], "its own undo ran");

    let (panics, stage) = ended(|| {
        let panic = Step::new("panic", |_: StepContext<Custom>| async {
            panic!("oh") as Result<(), _>
        });
        vec![make("a"), panic]
    })
    .await;
    assert_eq!(reason(&panics), "panic: the step panicked: oh");
    assert_eq!(stage.world.names(), [""; 0]);
}

#[tokio::test]
async fn duplicate_step_names_fail_before_the_first_step() {
    let (failed, stage) = ended(|| vec![make("a"), make("a")]).await;
    assert!(reason(&failed).contains("two steps are called a"));
    assert_eq!(stage.world.names(), [""; 0]);
    let (failed, _) = ended(|| vec![make("a"), fail()]).await;
    assert_eq!(reason(&failed), "fail: no luck");
}

#[tokio::test]
async fn waiting_operations_do_not_occupy_a_slot() {
    let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
    let kind = Custom::new(|_| {
        vec![Step::new("wait", |ctx: StepContext<Custom>| async move {
            // The last one opens the auth layer for all that were before it.
            if ctx.context.world.names().len() >= 4 {
                ctx.context.open.send_replace(true);
                return Ok(());
            }
            ctx.context.world.put(ctx.operation().to_string(), "waits");
            ctx.wait_for(ctx.context.passed()).await;
            Ok(())
        })]
    });
    let settings = Settings {
        at_once: 2,
        ..Settings::default()
    };
    let engine = kind.open_with(&store, &stage, settings).await;
    let asking = engine.operations();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(asking.submit::<Custom>(&vec![], "ann", None).await.unwrap());
    }
    for id in ids {
        let ended = soon(asking.wait(id)).await.unwrap();
        assert!(matches!(ended.state, State::Completed { .. }), "{ended:?}");
    }
}

#[tokio::test]
async fn unknown_fields_of_an_operation_record_are_preserved() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let asking = operations(&store, Build, &world);
    let id = asking.submit::<Build>(&house("h", 2), "ann", None).await;
    let id = id.unwrap();
    let key = format!("operation/{id}");
    let text = async || -> serde_json::Value {
        let entry = store.get(&key).await.unwrap().unwrap();
        serde_json::from_slice(&entry.value).unwrap()
    };
    let mut record = text().await;
    record["future"] = serde_json::json!({"x": [1]});
    let put = Transaction::new().put(&*key, record.to_string());
    store.commit(put).await.unwrap();
    let _engine = engine(&store, Build, &world, Settings::default()).await;
    let ended = soon(asking.wait(id)).await.unwrap();
    assert!(matches!(ended.state, State::Completed { .. }), "{ended:?}");
    assert_eq!(text().await["future"], serde_json::json!({"x": [1]}));
}
