//! What happens after an engine has gone, and to what could not be undone.

use std::sync::Arc;
use std::time::Duration;

use crate::support::custom::{Custom, Stage, fail, gate, make};
use crate::support::{at_once, soon, until};
use strata_store::{Condition, Memory, Store, Transaction};
use strata_workflow::{
    Claim, End, Operations, Outputs, Registry, Settings, State, Step, StepContext, StepError,
    Workflow, WorkflowError,
};

fn fresh() -> (Arc<Memory>, Arc<Stage>) {
    (Arc::new(Memory::new()), Arc::new(Stage::default()))
}

/// A step whose undo works only when the auth layer is open.
fn sticky() -> Step<Custom> {
    let step = Step::new("sticky", |ctx: StepContext<Custom>| async move {
        ctx.context.world.put("sticky", "");
        Ok("glue")
    });
    step.undo(|ctx: StepContext<Custom>| async move {
        if !*ctx.context.open.borrow() {
            return Err(StepError::permanent("it sticks"));
        }
        assert_eq!(ctx.output::<String>("sticky")?, "glue");
        ctx.context.world.take("sticky");
        Ok(())
    })
}

#[tokio::test]
async fn next_engine_resumes_a_step_interrupted_by_shutdown() {
    let kind = Custom::new(|_| vec![make("a"), gate(), make("b")]);
    let (store, stage) = fresh();
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations().clone();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    until("it waits", async || {
        let step = asking.get(id).await.unwrap();
        step.current_step().is_some_and(|it| it.name == "gate")
    })
    .await;
    soon(engine.shutdown()).await;
    stage.open.send_replace(true);
    assert!(!asking.get(id).await.unwrap().has_ended());
    let engine = kind.open(&store, &stage).await;
    soon(asking.wait(id)).await.unwrap();
    assert_eq!(stage.world.names(), ["a", "b"]);
    engine.shutdown().await;
}

#[tokio::test]
async fn leftovers_are_reported_and_cleanup_is_retried() {
    let kind = Custom::new(|_| vec![make("a"), sticky(), make("b"), fail()]);
    let (store, stage) = fresh();
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let claims = vec![Claim::exclusive("x")];
    let id = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    let next = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    let failed = soon(asking.wait(id)).await.unwrap();
    assert_eq!(failed.reason().unwrap().to_string(), "fail: no luck");
    let left = failed.leftovers();
    let left: Vec<_> = left
        .iter()
        .map(|it| (&*it.step, it.error.as_deref()))
        .collect();
    assert_eq!(left, [("sticky", Some("it sticks")), ("a", None)]);
    assert_eq!(stage.world.names(), ["a", "sticky"], "not out of order");
    until("it is told", async || {
        engine.status().leftovers.contains(&id)
    })
    .await;
    let waiting = asking.get(next).await.unwrap();
    assert_eq!(
        waiting.state,
        State::Scheduled,
        "nobody builds on the rubble"
    );
    assert_eq!(asking.waits_for(next).await.unwrap(), [id]);

    engine.shutdown().await;
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    until("it is known again", async || {
        engine.status().leftovers.contains(&id)
    })
    .await;
    stage.open.send_replace(true);
    asking.retry_unwind(id).await.unwrap();
    soon(asking.wait(next)).await.unwrap();
    let cleaned = asking.get(id).await.unwrap();
    assert_eq!(cleaned.leftovers(), []);
    assert!(matches!(cleaned.state, State::Failed { .. }));
    assert_eq!(stage.world.names(), [""; 0]);
    let again = asking.retry_unwind(id).await;
    assert_eq!(again, Err(WorkflowError::NothingLeft { id }));
}

#[tokio::test]
async fn leftover_cleanup_is_retried_automatically() {
    let kind = Custom::new(|_| vec![sticky(), fail()]);
    let (store, stage) = fresh();
    let cleanup_every = Duration::from_millis(5);
    let settings = Settings {
        cleanup_every,
        ..Settings::default()
    };
    let engine = kind.open_with(&store, &stage, settings).await;
    let asking = engine.operations();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    assert_eq!(soon(asking.wait(id)).await.unwrap().leftovers().len(), 1);
    stage.open.send_replace(true);
    until("it is clean", async || {
        asking.get(id).await.unwrap().leftovers().is_empty()
    })
    .await;
    assert_eq!(stage.world.names(), [""; 0]);
    until("it is told", async || engine.status().leftovers.is_empty()).await;
}

#[tokio::test]
async fn leftovers_can_be_abandoned_by_a_user() {
    let kind = Custom::new(|_| vec![sticky(), fail()]);
    let (store, stage) = fresh();
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let claims = vec![Claim::exclusive("x")];
    let id = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    let next = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    soon(asking.wait(id)).await.unwrap();
    asking.abandon(id, "bob").await.unwrap();
    soon(asking.wait(next)).await.unwrap();
    let abandoned = asking.get(id).await.unwrap();
    assert_eq!(abandoned.abandoned.unwrap().by, "bob");
    until("it is not told any more", async || {
        !engine.status().leftovers.contains(&id)
    })
    .await;
}

#[tokio::test]
async fn operation_of_unknown_kind_is_kept_and_reported() {
    let kind = Custom::new(|_| vec![make("a"), gate(), make("b")]);
    let (store, stage) = fresh();
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations().clone();
    let claims = vec![Claim::exclusive("x")];
    let begun = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    until("a is made", async || stage.world.names() == ["a"]).await;
    engine.shutdown().await;
    let waiting = asking.submit::<Custom>(&claims, "ann", None).await.unwrap();
    stage.open.send_replace(true);

    let nothing = Operations::new(store.clone() as Arc<dyn Store>, Registry::new());
    let engine = Workflow::open(nothing, Settings::default()).await.unwrap();
    let unknown = engine.status().unknown;
    assert_eq!(
        unknown.keys().copied().collect::<Vec<_>>(),
        [begun, waiting]
    );
    assert_eq!(unknown[&begun], "custom");
    engine.shutdown().await;

    let engine = kind.open(&store, &stage).await;
    soon(asking.wait(begun)).await.unwrap();
    soon(asking.wait(waiting)).await.unwrap();
    assert!(engine.status().unknown.is_empty());
}

#[tokio::test]
async fn unreadable_operation_record_is_kept_and_reported() {
    let kind = Custom::new(|_| vec![make("a")]);
    let (store, stage) = fresh();
    let key = "operation/0192f0c1-2d3e-7000-8000-000000000000";
    let rubbish = Transaction::new().put(key, "{");
    store.commit(rubbish).await.unwrap();
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    soon(asking.wait(id)).await.unwrap();
    assert!(engine.status().unreadable.contains(key));
    assert!(store.get(key).await.unwrap().is_some());
}

#[tokio::test]
async fn deposed_engine_writes_nothing_and_the_next_engine_resumes() {
    let kind = Custom::new(|_| vec![make("a"), gate(), make("b")]);
    let (store, stage) = fresh();
    let lead = async || {
        let revision = store.commit(Transaction::new().put("leader", "me")).await;
        let fence = Condition::Unchanged("leader".into(), revision.unwrap());
        let settings = Settings {
            fence: Some(fence),
            ..Settings::default()
        };
        kind.open_with(&store, &stage, settings).await
    };
    let old = lead().await;
    let asking = old.operations().clone();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    until("a is made", async || stage.world.names() == ["a"]).await;
    let new = lead().await;
    stage.open.send_replace(true);
    soon(asking.wait(id)).await.unwrap();
    assert_eq!(stage.world.names(), ["a", "b"]);
    assert_eq!(soon(old.ended()).await, End::Deposed);
    new.shutdown().await;
}

#[tokio::test]
async fn second_engine_is_detected_without_a_fence() {
    let kind = Custom::new(|_| vec![make("a"), gate(), make("b")]);
    let (store, stage) = fresh();
    let old = kind.open(&store, &stage).await;
    let asking = old.operations().clone();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    until("a is made", async || stage.world.names() == ["a"]).await;
    let new = kind.open(&store, &stage).await;
    until("the new one runs it", async || new.status().running == 1).await;
    stage.open.send_replace(true);
    soon(asking.wait(id)).await.unwrap();
    let ended = async {
        tokio::select! { end = old.ended() => end, end = new.ended() => end }
    };
    assert_eq!(soon(ended).await, End::Deposed, "whichever was slower");
}

#[tokio::test]
async fn operation_whose_steps_changed_is_rolled_back() {
    let (store, stage) = fresh();
    let old = Custom::new(|_| vec![make("a"), gate()]);
    let engine = old.open(&store, &stage).await;
    let asking = engine.operations().clone();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    until("a is made", async || stage.world.names() == ["a"]).await;
    until("the gate is reached", async || {
        asking.get(id).await.unwrap().steps.len() == 2
    })
    .await;
    engine.shutdown().await;
    let new = Custom::new(|_| vec![make("a"), make("c"), gate()]);
    let _engine = new.open(&store, &stage).await;
    let failed = soon(asking.wait(id)).await.unwrap();
    let reason = failed.reason().unwrap().to_string();
    assert!(
        reason.contains("gate has begun where there is c now"),
        "{reason}"
    );
    assert_eq!(failed.leftovers(), []);
    assert_eq!(stage.world.names(), [""; 0]);
}

#[tokio::test]
async fn later_steps_depend_on_earlier_outputs() {
    let kind = Custom::new(|outputs: &Outputs| {
        let mut steps = vec![Step::new("count", |_: StepContext<Custom>| async { Ok(2) })];
        let more = outputs.find("count").unwrap().unwrap_or(0);
        steps.extend(["x", "y", "z"].into_iter().take(more).map(make));
        steps
    });
    let (store, stage) = fresh();
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    soon(asking.wait(id)).await.unwrap();
    assert_eq!(stage.world.names(), ["x", "y"]);
}

#[tokio::test]
async fn operation_log_is_bounded() {
    let kind = Custom::new(|_| {
        let flaky = Step::new("flaky", |ctx: StepContext<Custom>| async move {
            match ctx.attempt() {
                700 => Ok(()),
                _ => Err(StepError::transient("not yet")),
            }
        });
        vec![flaky.retry(at_once(700))]
    });
    let (store, stage) = fresh();
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    soon(asking.wait(id)).await.unwrap();
    let log = asking.log(id).await.unwrap();
    assert_eq!(log.len(), 500);
    assert_eq!(log.last().unwrap().text, "completed");
    assert!(
        log.windows(2)
            .all(|pair| pair[0].number + 1 == pair[1].number)
    );
}
