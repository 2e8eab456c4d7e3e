//! Reading and writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use strata_store::{Store, StoreError, Transaction};

use crate::world::{World, next};

pub(crate) async fn reads_see_what_was_committed(world: &World) {
    let store = &world.store;
    assert_eq!(store.get("a/1").await, Ok(None));
    let empty = store.list("").await.unwrap();
    assert_eq!(empty.entries, []);

    let keys = ["a", "a/2", "a/1", "a/é", "a0", "b"];
    let transaction = Transaction::new();
    let transaction = keys.iter().fold(transaction, |it, key| it.put(*key, *key));
    let first = store.commit(transaction).await.unwrap();
    assert!(first > empty.revision);
    let second = store.commit(Transaction::new().put("a/1", "new").delete("b"));
    let second = second.await.unwrap();
    assert!(second > first);

    let entry = store.get("a/1").await.unwrap().unwrap();
    assert_eq!(entry.value, "new");
    assert_eq!(
        (entry.created, entry.changed, entry.lease),
        (first, second, None)
    );
    let listing = store.list("a/").await.unwrap();
    let found: Vec<_> = listing.entries.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(found, ["a/1", "a/2", "a/é"]);
    assert_eq!(listing.entries[0], entry);
    assert_eq!(listing.revision, second);
    let all = store.list("").await.unwrap().entries;
    assert_eq!(all.len(), 5);
    assert!(all.is_sorted_by(|a, b| a.key < b.key));

    let third = store
        .commit(Transaction::new().put("b", "again"))
        .await
        .unwrap();
    let entry = store.get("b").await.unwrap().unwrap();
    assert_eq!((entry.created, entry.changed), (third, third));
}

pub(crate) async fn a_conflict_names_the_key(world: &World) {
    let store = &world.store;
    let absent = |key: &str| Transaction::new().if_absent(key).put(key, "1");
    let first = store.commit(absent("a")).await.unwrap();
    let conflict = |key: &str| {
        Err(StoreError::Conflict {
            key: key.to_owned(),
        })
    };
    assert_eq!(store.commit(absent("a")).await, conflict("a"));

    let wrong = Transaction::new()
        .if_unchanged("a", first)
        .if_absent("b")
        .if_unchanged("c", first)
        .put("d", "1")
        .delete("a");
    assert_eq!(store.commit(wrong).await, conflict("c"));
    assert_eq!(store.get("d").await, Ok(None));

    let changed = Transaction::new().if_unchanged("a", first).put("a", "2");
    let second = store.commit(changed.clone()).await.unwrap();
    assert_eq!(store.commit(changed).await, conflict("a"));
    let gone = Transaction::new().if_unchanged("a", second).delete("a");
    store.commit(gone.clone()).await.unwrap();
    assert_eq!(store.commit(gone).await, conflict("a"));
    store.commit(absent("a")).await.unwrap();
}

pub(crate) async fn what_changes_nothing(world: &World) {
    let store = &world.store;
    let first = store
        .commit(Transaction::new().put("a", "1"))
        .await
        .unwrap();
    assert_eq!(
        store.commit(Transaction::new().delete("b")).await,
        Ok(first)
    );
    let looked = Transaction::new().if_unchanged("a", first);
    assert_eq!(store.commit(looked).await, Ok(first));
    assert_eq!(store.commit(Transaction::new()).await, Ok(first));
    assert_eq!(store.list("").await.unwrap().revision, first);
    // Writing the same value again is a change.
    let again = store
        .commit(Transaction::new().put("a", "1"))
        .await
        .unwrap();
    assert!(again > first);
}

/// Every transaction writes the same number under all keys; no listing may
/// ever see two numbers, though it is longer than a page.
pub(crate) async fn all_or_nothing(world: &World) {
    const KEYS: usize = 120;
    let store = &world.store;
    let round = |n: u32| {
        let keys = (0..KEYS).map(|key| format!("k/{key:03}"));
        keys.fold(Transaction::new(), |it, key| {
            it.put(key, n.to_string().repeat(50))
        })
    };
    store.commit(round(0)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (store, done) = (store.clone(), done.clone());
        async move {
            let mut rounds = 0;
            while !done.load(Ordering::SeqCst) || rounds == 0 {
                let listing = store.list("k/").await.unwrap();
                assert_eq!(listing.entries.len(), KEYS);
                let (value, changed) = (&listing.entries[0].value, listing.entries[0].changed);
                let same = |it: &strata_store::Entry| it.value == *value && it.changed == changed;
                assert!(listing.entries.iter().all(same));
                assert!(listing.revision >= changed);
                rounds += 1;
            }
        }
    });
    for n in 1..30 {
        store.commit(round(n)).await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    reader.await.unwrap();
}

pub(crate) async fn counter(world: &World) {
    const EACH: usize = 25;
    let count = |store: Arc<dyn Store>| async move {
        let mut won = Vec::new();
        while won.len() < EACH {
            let transaction = match store.get("n").await.unwrap() {
                None => Transaction::new().if_absent("n").put("n", "1"),
                Some(entry) => {
                    let n: usize = str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    let same = Transaction::new().if_unchanged("n", entry.changed);
                    same.put("n", (n + 1).to_string())
                }
            };
            match store.commit(transaction).await {
                Ok(revision) => won.push(revision),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(won.is_sorted());
        won
    };
    let tasks = (0..8).map(|_| tokio::spawn(count(world.store.clone())));
    let won = join_all(tasks).await.into_iter().flat_map(Result::unwrap);
    let mut won: Vec<_> = won.collect();
    won.sort_unstable();
    won.dedup();
    assert_eq!(won.len(), 8 * EACH, "no two transactions have one revision");
    let entry = world.store.get("n").await.unwrap().unwrap();
    assert_eq!(entry.value, (8 * EACH).to_string());
    assert_eq!(Some(&entry.changed), won.last());
}

pub(crate) async fn erased(world: &World) {
    let store = &world.store;
    let lease = store.grant(Duration::from_secs(3600)).await.unwrap();
    for n in 0..50 {
        let put = Transaction::new()
            .put("e/kept", n.to_string())
            .put_with("e/bound", "", Some(lease))
            .put(format!("e/gone/{n}"), vec![b'x'; 5000]);
        store.commit(put).await.unwrap();
        let delete = Transaction::new().delete(format!("e/gone/{n}"));
        store.commit(delete).await.unwrap();
    }
    let before = store.list("").await.unwrap();
    store.erase_overwritten().await.unwrap();
    assert_eq!(store.list("").await.unwrap(), before);
    // Writes, watches and leases go on.
    let mut watch = store.watch("e/", before.revision).await.unwrap();
    let put = Transaction::new().put("e/kept", "next");
    let revision = store.commit(put).await.unwrap();
    assert!(revision > before.revision);
    assert_eq!(next(&mut watch).await.unwrap().revision, revision);
    store.keep_alive(lease).await.unwrap();
    store.revoke(lease).await.unwrap();
    assert_eq!(store.get("e/bound").await, Ok(None));
}
