//! The faults of the simulated engine.

use std::time::Duration;

use strata_store::{Memory, Store as _, StoreError, Transaction};

use crate::world::{next, until};

fn put(value: &'static str) -> Transaction {
    Transaction::new().put("a", value)
}

#[tokio::test]
async fn commits_fail_before_and_after_their_effect() {
    let store = Memory::new();
    store.fail_before(1);
    store.fail_after(1);
    let failed = store.commit(put("1")).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))));
    assert_eq!(store.get("a").await, Ok(None));
    let failed = store.commit(put("2")).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))));
    assert_eq!(store.get("a").await.unwrap().unwrap().value, "2");
    assert_eq!(store.commit(put("3")).await, Ok(2));
}

#[tokio::test]
async fn commits_are_held_until_released() {
    let store = Memory::new();
    store.hold();
    let held = tokio::spawn({
        let store = store.clone();
        async move { store.commit(put("1")).await }
    });
    until("the commit to be held", || async {
        (store.waiting() == 1).then_some(())
    })
    .await;
    assert_eq!(store.revision(), 0);
    store.release();
    assert_eq!(held.await.unwrap(), Ok(1));
    assert_eq!(store.waiting(), 0);
}

#[tokio::test]
async fn memory_store_breaks_watches_and_advances_time_on_request() {
    let store = Memory::new();
    let mut watch = store.watch("", 0).await.unwrap();
    let lease = store.grant(Duration::from_secs(60)).await.unwrap();
    let bound = Transaction::new().put_with("a", "", Some(lease));
    store.commit(bound).await.unwrap();
    store.advance(Duration::from_secs(59));
    assert!(store.get("a").await.unwrap().is_some());
    store.advance(Duration::from_secs(1));
    assert_eq!(store.get("a").await, Ok(None));
    assert_eq!(next(&mut watch).await.unwrap().revision, 1);
    assert_eq!(next(&mut watch).await.unwrap().revision, 2);
    store.break_watches();
    let broken = next(&mut watch).await;
    assert!(matches!(broken, Err(StoreError::Unavailable(_))));
    assert!(futures_util::StreamExt::next(&mut watch).await.is_none());
    let mut again = store.watch("", 2).await.unwrap();
    store.commit(put("1")).await.unwrap();
    assert_eq!(next(&mut again).await.unwrap().revision, 3);
}
