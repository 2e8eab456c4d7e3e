//! Records that move from one store to another, and files that are not whole.

use std::time::Duration;

use strata_store::{
    DumpError, Embedded, EmbeddedOptions, IMPORT_KEY, Memory, Store, Transaction, export, import,
};

async fn filled() -> Memory {
    let store = Memory::new();
    for n in 0..300_u32 {
        let key = format!("key/{n:03}");
        store
            .commit(Transaction::new().put(key, format!("{{\"n\":{n}}}")))
            .await
            .unwrap();
    }
    let others = Transaction::new()
        .put("large", vec![b'"'; 1 << 20])
        .put("raw", vec![0, 255]);
    store.commit(others).await.unwrap();
    let lease = store.grant(Duration::from_secs(3600)).await.unwrap();
    let bound = Transaction::new().put_with("leased", "", Some(lease));
    store.commit(bound).await.unwrap();
    store
}

async fn exported(store: &dyn Store) -> Vec<u8> {
    let mut file = Vec::new();
    export(store, &mut file).await.unwrap();
    file
}

async fn values(store: &dyn Store) -> Vec<(String, bytes::Bytes)> {
    let listing = store.list("").await.unwrap();
    let free = listing.entries.into_iter().filter(|it| it.lease.is_none());
    free.map(|it| (it.key, it.value)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_move_to_another_store() {
    let from = filled().await;
    let file = exported(&from).await;
    let dir = tempfile::tempdir().unwrap();
    let to = Embedded::open(dir.path(), &EmbeddedOptions::default()).unwrap();
    assert_eq!(import(&to, &mut &file[..]).await.unwrap(), 302);
    assert_eq!(values(&to).await, values(&from).await);
    // The same records are the same file, but for the revision.
    let again = exported(&to).await;
    let entries = |file: &[u8]| {
        let lines: Vec<_> = file.split(|it| *it == b'\n').map(<[u8]>::to_vec).collect();
        lines[1..303].to_vec()
    };
    assert_eq!(entries(&again), entries(&file));
    let refused = import(&to, &mut &file[..]).await.unwrap_err();
    assert!(matches!(refused, DumpError::NotEmpty { .. }), "{refused}");
}

#[tokio::test]
async fn a_cut_or_changed_file_is_refused_and_nothing_is_written() {
    let from = Memory::new();
    for key in ["a", "b", "c"] {
        from.commit(Transaction::new().put(key, "value"))
            .await
            .unwrap();
    }
    let file = exported(&from).await;
    let to = Memory::new();
    for length in 0..file.len() {
        let refused = import(&to, &mut &file[..length]).await.unwrap_err();
        assert!(matches!(refused, DumpError::Cut), "{length}: {refused}");
    }
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1;
        import(&to, &mut &changed[..]).await.unwrap_err();
    }
    let text = String::from_utf8(file.clone()).unwrap();
    let without_b: String = text
        .split_inclusive('\n')
        .filter(|it| !it.contains("\"b\""))
        .collect();
    let refused = import(&to, &mut without_b.as_bytes()).await.unwrap_err();
    assert!(matches!(refused, DumpError::Changed), "{refused}");
    let newer = text.replace("\"version\":1", "\"version\":2");
    let refused = import(&to, &mut newer.as_bytes()).await.unwrap_err();
    assert!(
        matches!(refused, DumpError::Newer { found: 2 }),
        "{refused}"
    );
    let more = format!("{text}\n");
    let refused = import(&to, &mut more.as_bytes()).await.unwrap_err();
    assert!(
        matches!(refused, DumpError::Line { line: 5, .. }),
        "{refused}"
    );
    assert_eq!(to.revision(), 0, "nothing is written");
    import(&to, &mut &file[..]).await.unwrap();
}

#[tokio::test]
async fn an_import_that_failed_goes_on() {
    let from = filled().await;
    let file = exported(&from).await;
    let to = Memory::new();
    to.fail_after(1);
    let failed = import(&to, &mut &file[..]).await.unwrap_err();
    assert!(matches!(failed, DumpError::Store(_)), "{failed}");
    // As if one more batch had been written.
    let batch = Transaction::new()
        .put("key/007", "{\"n\":7}")
        .put("raw", vec![0, 255]);
    to.commit(batch).await.unwrap();

    let half = export(&to, &mut Vec::new()).await.unwrap_err();
    assert!(matches!(half, DumpError::Interrupted), "{half}");
    let other = exported(&Memory::new()).await;
    let refused = import(&to, &mut &other[..]).await.unwrap_err();
    assert!(matches!(refused, DumpError::Interrupted), "{refused}");

    assert_eq!(import(&to, &mut &file[..]).await.unwrap(), 302);
    assert_eq!(values(&to).await, values(&from).await);
    assert_eq!(to.get(IMPORT_KEY).await, Ok(None));
}
