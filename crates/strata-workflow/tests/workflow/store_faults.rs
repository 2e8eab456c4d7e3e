//! The store fails, before or after it did what was requested; nothing is done
//! twice that must be done once, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::custom::{Custom, Stage, fail, gate, make};
use crate::support::flaky::Flaky;
use crate::support::{Build, World, engine, house, operations, soon, until};
use futures_util::StreamExt as _;
use strata_store::{Memory, Store};
use strata_workflow::{Filter, Operations, Registry, Settings, State, Workflow};

#[tokio::test]
async fn submission_without_an_answer_creates_one_operation() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let asking = operations(&store, Build, &world);
    for (before, after) in [(1, 0), (0, 1), (1, 1), (0, 2)] {
        store.fail_before(before);
        store.fail_after(after);
        let id = asking
            .submit::<Build>(&house("h", 1), "ann", Some("k"))
            .await;
        assert!(id.is_ok(), "{id:?}");
    }
    assert_eq!(asking.list(&Filter::default()).await.unwrap().len(), 1);
    store.fail_before(100);
    let id = asking.submit::<Build>(&house("h", 1), "ann", None).await;
    assert!(id.is_err(), "it is not tried for ever");
}

/// Runs an operation that fails at its last step on a store that does not
/// answer at one write. Reports how many there were.
async fn run_through(write: usize, effect: bool) -> usize {
    let stage = Arc::new(Stage::default());
    let kind = Custom::new(|_| vec![make("a"), make("b"), fail()]);
    let flaky = Arc::new(Flaky {
        inner: Arc::new(Memory::new()),
        writes: AtomicUsize::new(0),
        fail_at: write,
        effect,
    });
    let mut registry = Registry::new();
    registry.register(kind, Arc::clone(&stage)).unwrap();
    let asking = Operations::new(flaky.clone() as Arc<dyn Store>, registry);
    let engine = Workflow::open(asking.clone(), Settings::default()).await;
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    let ended = soon(asking.wait(id)).await.unwrap();
    assert!(matches!(ended.state, State::Failed { .. }));
    assert_eq!(stage.world.names(), [""; 0]);
    let log = asking.log(id).await.unwrap();
    let done = log.iter().filter(|line| line.text == "done").count();
    assert_eq!(done, 2, "each end is told once: {log:?}");
    engine.unwrap().shutdown().await;
    flaky.writes.load(Ordering::SeqCst)
}

#[tokio::test]
async fn operation_completes_when_any_store_write_fails() {
    for effect in [false, true] {
        let mut write = 0;
        while run_through(write, effect).await > write {
            write += 1;
        }
        assert!(write >= 7, "each write was tried: {write}");
    }
}

#[tokio::test]
async fn cancellation_without_an_answer_cancels_once() {
    let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
    let kind = Custom::new(|_| vec![make("a"), gate()]);
    let engine = kind.open(&store, &stage).await;
    let asking = engine.operations();
    let id = asking.submit::<Custom>(&vec![], "ann", None).await.unwrap();
    until("the gate is reached", async || {
        asking.get(id).await.unwrap().steps.len() == 2
    })
    .await;
    store.fail_after(1);
    asking.cancel(id, "bob").await.unwrap();
    soon(asking.wait(id)).await.unwrap();
    let log = asking.log(id).await.unwrap();
    let asked = log.iter().filter(|line| line.text == "cancelled by bob");
    assert_eq!(asked.count(), 1);
}

#[tokio::test]
async fn lost_operation_watch_is_resumed() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let engine = engine(&store, Build, &world, Settings::default()).await;
    let asking = engine.operations();
    for _ in 0..3 {
        store.break_watches();
        store.forget();
        let id = asking
            .submit::<Build>(&house("h", 3), "ann", None)
            .await
            .unwrap();
        let mut snapshots = asking.watch(id).await.unwrap();
        soon(snapshots.next()).await.unwrap().unwrap();
        store.break_watches();
        store.forget();
        let mut last = None;
        while let Some(it) = soon(snapshots.next()).await {
            last = Some(it.unwrap());
        }
        // The end may have been the first thing seen.
        assert!(last.is_none_or(|it| it.has_ended()));
        assert!(soon(asking.wait(id)).await.unwrap().has_ended());
    }
}

#[tokio::test]
async fn engine_shuts_down_while_the_store_hangs() {
    let (store, stage) = (Arc::new(Memory::new()), Arc::new(Stage::default()));
    let kind = Custom::new(|_| vec![make("a"), make("b")]);
    let operations = operations(&store, kind.clone(), &stage);
    let id = operations
        .submit::<Custom>(&vec![], "ann", None)
        .await
        .unwrap();
    store.hold();
    let engine = kind.open(&store, &stage).await;
    until("it hangs", async || store.waiting() == 1).await;
    soon(engine.shutdown()).await;
    assert_eq!(store.waiting(), 0);
    store.release();
    let _engine = kind.open(&store, &stage).await;
    soon(operations.wait(id)).await.unwrap();
    assert_eq!(stage.world.names(), ["a", "b"]);
}
