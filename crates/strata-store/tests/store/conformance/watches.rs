//! Following what happens.

use futures_util::future::join_all;
use strata_store::{Change, Entry, StoreError, Transaction};

use crate::world::{World, next};

/// Begins in the middle of many writes; sees all after it and nothing else.
pub(crate) async fn history_then_live(world: &World) {
    const WRITERS: usize = 4;
    const EACH: usize = 60;
    let store = &world.store;
    let base = store
        .commit(Transaction::new().put("w/start", ""))
        .await
        .unwrap();
    let write = |writer: usize| {
        let store = store.clone();
        async move {
            let mut written = Vec::new();
            for n in 0..EACH {
                let both = Transaction::new()
                    .put(format!("w/{writer}/b"), n.to_string())
                    .put(format!("w/{writer}/a"), n.to_string());
                written.push((store.commit(both).await.unwrap(), writer, n));
            }
            written
        }
    };
    let writers: Vec<_> = (0..WRITERS).map(|it| tokio::spawn(write(it))).collect();
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(store.watch("w/", base).await.unwrap());
        store.get("w/0/a").await.unwrap();
    }
    let written = join_all(writers).await.into_iter().flat_map(Result::unwrap);
    let mut written: Vec<_> = written.collect();
    written.sort_unstable();
    watches.push(store.watch("w/", base).await.unwrap());
    for watch in &mut watches {
        for (revision, writer, n) in &written {
            let item = next(watch).await.unwrap();
            assert_eq!(item.revision, *revision);
            let put = |change: &Change| match change {
                Change::Put(Entry {
                    key,
                    value,
                    changed,
                    ..
                }) => {
                    assert_eq!(changed, revision);
                    (key.clone(), value.clone())
                }
                Change::Deleted { .. } => panic!("{change:?}"),
            };
            let found: Vec<_> = item.changes.iter().map(put).collect();
            let value = bytes::Bytes::from(n.to_string());
            let expected = ["a", "b"].map(|it| (format!("w/{writer}/{it}"), value.clone()));
            assert_eq!(found, expected);
        }
    }
    // Nothing more is in any of them: the next change is the next item.
    let last = store
        .commit(Transaction::new().delete("w/start"))
        .await
        .unwrap();
    for watch in &mut watches {
        let item = next(watch).await.unwrap();
        assert_eq!(item.revision, last);
        assert_eq!(
            item.changes,
            [Change::Deleted {
                key: "w/start".into()
            }]
        );
    }
}

pub(crate) async fn only_the_prefix(world: &World) {
    let store = &world.store;
    let base = store
        .commit(Transaction::new().put("b/0", ""))
        .await
        .unwrap();
    let mut watch = store.watch("b/", base).await.unwrap();
    let mut one = store.watch("b/2", base).await.unwrap();
    let mut all = store.watch("", base).await.unwrap();
    let others = Transaction::new().put("a", "").put("b", "").put("c", "");
    let others = store.commit(others).await.unwrap();
    let mixed = Transaction::new()
        .put("c/1", "")
        .put("b/1", "1")
        .delete("b/0")
        .put("a/1", "");
    let mixed = store.commit(mixed).await.unwrap();
    let item = next(&mut watch).await.unwrap();
    assert_eq!(item.revision, mixed);
    let keys: Vec<_> = item.changes.iter().map(Change::key).collect();
    assert_eq!(keys, ["b/0", "b/1"]);
    assert!(matches!(&item.changes[0], Change::Deleted { .. }));
    assert!(matches!(&item.changes[1], Change::Put(entry) if entry.created == mixed));
    let item = next(&mut all).await.unwrap();
    assert_eq!((item.revision, item.changes.len()), (others, 3));
    let last = store
        .commit(Transaction::new().put("b/2", ""))
        .await
        .unwrap();
    assert_eq!(next(&mut one).await.unwrap().revision, last);
}

/// More than one answer of etcd holds.
pub(crate) async fn large_past(world: &World) {
    let store = &world.store;
    let base = store.commit(Transaction::new().put("x", "")).await.unwrap();
    let mut written = Vec::new();
    for n in 0..8_u8 {
        let keys = (0..10).map(|key| format!("large/{key}"));
        let large = keys.fold(Transaction::new(), |it, key| {
            it.put(key, vec![n; 120 << 10])
        });
        written.push(store.commit(large).await.unwrap());
    }
    let mut watch = store.watch("large/", base).await.unwrap();
    for revision in written {
        let item = next(&mut watch).await.unwrap();
        assert_eq!((item.revision, item.changes.len()), (revision, 10));
    }
}

pub(crate) async fn forgotten(world: &World) {
    let store = &world.store;
    let old = store
        .commit(Transaction::new().put("a", "1"))
        .await
        .unwrap();
    for n in 0..5 {
        store
            .commit(Transaction::new().put("a", n.to_string()))
            .await
            .unwrap();
    }
    let now = store.list("").await.unwrap().revision;
    world.forget(now).await;
    let refused = store.watch("a", old).await.err();
    let Some(StoreError::Compacted { oldest }) = refused else {
        panic!("{refused:?}");
    };
    assert!(oldest > old);
    let refused = store.watch("a", 0).await.err();
    assert!(
        matches!(refused, Some(StoreError::Compacted { .. })),
        "{refused:?}"
    );

    let listing = store.list("a").await.unwrap();
    let mut watch = store.watch("a", listing.revision).await.unwrap();
    let next_one = store
        .commit(Transaction::new().put("a", "new"))
        .await
        .unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, next_one);

    // A caller that has a revision that never was has read another store.
    let future = store.watch("a", next_one + 1000).await.err();
    assert!(
        matches!(future, Some(StoreError::Compacted { .. })),
        "{future:?}"
    );
}
