//! Ended operations are removed in time, with all that belongs to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::support::{Build, World, house, operations, soon, until};
use strata_store::{Memory, Store};
use strata_workflow::{Clock, Filter, Retention, Settings, Workflow, WorkflowError};

#[tokio::test]
async fn oldest_operations_are_deleted_above_the_limit() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let retention = Retention {
        keep_at_most: 2,
        ..Retention::default()
    };
    let settings = Settings {
        retention,
        ..Settings::default()
    };
    let engine = Workflow::open(operations(&store, Build, &world), settings)
        .await
        .unwrap();
    let asking = engine.operations();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let key = ids.len().to_string();
        let id = asking
            .submit::<Build>(&house("h", 1), "ann", Some(&key))
            .await
            .unwrap();
        soon(asking.wait(id)).await.unwrap();
        ids.push(id);
    }
    until("two are left", async || {
        let left = asking.list(&Filter::default()).await.unwrap();
        left.iter().map(|it| it.id).eq(ids[3..].iter().copied())
    })
    .await;
    assert_eq!(
        asking.log(ids[0]).await,
        Err(WorkflowError::NotFound { id: ids[0] })
    );
    let keys = store.list("operation-key/").await.unwrap().entries;
    assert_eq!(keys.len(), 2, "and a key can be used again");
    let logs = store.list("operation-log/").await.unwrap().entries;
    assert!(logs.iter().all(|it| !it.key.contains(&ids[0].to_string())));
}

#[tokio::test]
async fn operations_are_deleted_after_their_retention() {
    let (store, world) = (Arc::new(Memory::new()), Arc::new(World::default()));
    let now = Arc::new(AtomicI64::new(1000));
    let clock = Clock::from_fn({
        let now = Arc::clone(&now);
        move || now.load(Ordering::SeqCst)
    });
    let settings = Settings {
        retention: Retention {
            keep_for: Duration::from_secs(60),
            ..Retention::default()
        },
        forget_every: Duration::from_millis(5),
        ..Settings::default()
    };
    let operations = operations(&store, Build, &world).with_clock(clock);
    let engine = Workflow::open(operations, settings).await.unwrap();
    let asking = engine.operations();
    let old = asking
        .submit::<Build>(&house("h", 1), "ann", None)
        .await
        .unwrap();
    assert_eq!(soon(asking.wait(old)).await.unwrap().ended_ms(), Some(1000));
    now.store(50_000, Ordering::SeqCst);
    let young = asking
        .submit::<Build>(&house("h", 1), "ann", None)
        .await
        .unwrap();
    soon(asking.wait(young)).await.unwrap();
    now.store(70_000, Ordering::SeqCst);
    until("the old one is gone", async || {
        asking.get(old).await.is_err()
    })
    .await;
    assert!(asking.get(young).await.is_ok());
}
