//! What is too large, and what is just not.

use std::time::Duration;

use strata_store::limits::{MAX_KEY, MAX_LEASE, MAX_OPERATIONS, MAX_TRANSACTION, MAX_VALUE};
use strata_store::{StoreError, Transaction};

use crate::world::World;

fn many(n: usize) -> Transaction {
    let keys = (0..n).map(|key| format!("{key:0MAX_KEY$}"));
    keys.fold(Transaction::new(), |it, key| {
        it.if_absent(key.clone()).put(key, "1")
    })
}

pub(crate) async fn refused(world: &World) {
    let store = &world.store;
    let long = "k".repeat(MAX_KEY + 1);
    let before = store.list("").await.unwrap();
    let wrong = [
        Transaction::new().put("", "1"),
        Transaction::new().put(long.clone(), "1"),
        Transaction::new().delete(long.clone()),
        Transaction::new().if_absent(long.clone()).put("a", "1"),
        Transaction::new().if_unchanged("a", 0).put("a", "1"),
        Transaction::new().put("a", vec![0; MAX_VALUE + 1]),
        Transaction::new()
            .put("a", vec![0; MAX_VALUE])
            .put("b", vec![0; MAX_TRANSACTION - MAX_VALUE]),
        Transaction::new().put("a", "1").put("a", "2"),
        Transaction::new().put("a", "1").delete("a"),
        many(MAX_OPERATIONS + 1),
    ];
    for transaction in wrong {
        let answer = store.commit(transaction).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
    assert!(matches!(
        store.get(&long).await,
        Err(StoreError::Invalid(_))
    ));
    assert!(matches!(store.get("").await, Err(StoreError::Invalid(_))));
    for ttl in [Duration::ZERO, MAX_LEASE + Duration::from_secs(1)] {
        let answer = store.grant(ttl).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
    assert_eq!(store.list("").await.unwrap(), before);
}

pub(crate) async fn accepted(world: &World) {
    let store = &world.store;
    store.commit(many(MAX_OPERATIONS)).await.unwrap();
    let (a, b) = ("a".repeat(MAX_KEY), "b".repeat(MAX_KEY));
    let rest = MAX_TRANSACTION - MAX_VALUE - 2 * MAX_KEY;
    let largest = Transaction::new()
        .put(a.clone(), vec![1; MAX_VALUE])
        .put(b, vec![2; rest]);
    store.commit(largest).await.unwrap();
    let entry = store.get(&a).await.unwrap().unwrap();
    assert_eq!(entry.value.len(), MAX_VALUE);
    let empty = store
        .commit(Transaction::new().put("empty", ""))
        .await
        .unwrap();
    assert_eq!(store.get("empty").await.unwrap().unwrap().changed, empty);
    let listing = store.list("").await.unwrap();
    assert_eq!(listing.entries.len(), MAX_OPERATIONS + 3);
}
