//! What only the embedded engine guarantees: its file, its format, its leases.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use redb::TableDefinition;

use super::migrations::{ENTRIES, META, MIGRATIONS, Migration};
use super::{Embedded, EmbeddedOptions, OpenError};
use crate::{Store as _, StoreError, Transaction};

fn open(dir: &std::path::Path) -> Result<Embedded, OpenError> {
    Embedded::open(dir, &EmbeddedOptions::default())
}

#[tokio::test]
async fn records_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("new/store")).unwrap();
    let first = Transaction::new().put("a", "1").put("b", vec![7; 1 << 20]);
    store.commit(first).await.unwrap();
    store
        .commit(Transaction::new().put("a", "2").delete("b"))
        .await
        .unwrap();
    let before = store.list("").await.unwrap();
    drop(store);

    let store = open(&dir.path().join("new/store")).unwrap();
    assert_eq!(store.list("").await.unwrap(), before);
    let past = store.watch("", 1).await.err();
    assert_eq!(past, Some(StoreError::Compacted { oldest: 2 }));
    assert!(store.watch("", 2).await.is_ok());
    assert_eq!(store.commit(Transaction::new().put("c", "")).await, Ok(3));
}

#[test]
fn only_its_owner_reads_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let _store = open(&dir.path().join("store")).unwrap();
    let mode = |name: &str| {
        let metadata = std::fs::metadata(dir.path().join(name)).unwrap();
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!(mode("store"), 0o700);
    assert_eq!(mode("store/store.redb"), 0o600);
    assert_eq!(mode("store/store.lock"), 0o600);
}

#[test]
fn store_cannot_be_opened_twice() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::InUse { .. })));
    drop(store);
    open(dir.path()).unwrap();
}

#[tokio::test]
async fn watch_delivers_all_changes_and_then_that_the_store_is_closed() {
    use futures_util::StreamExt as _;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let watch = store.watch("", 0).await.unwrap();
    for n in 0..3 {
        let put = Transaction::new().put("a", n.to_string());
        store.commit(put).await.unwrap();
    }
    drop(store);
    let items: Vec<_> = watch.collect().await;
    assert!(items[..3].iter().all(Result::is_ok));
    assert!(matches!(items[3..], [Err(StoreError::Unavailable(_))]));
}

#[tokio::test]
async fn keys_of_a_lease_end_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let lease = store.grant(Duration::from_millis(300)).await.unwrap();
    let bound = Transaction::new().put_with("bound", "", Some(lease));
    let written = store.commit(bound).await.unwrap();
    drop(store);

    let store = open(dir.path()).unwrap();
    let mut watch = store.watch("", written).await.unwrap();
    store.keep_alive(lease).await.unwrap();
    let gone = futures_util::StreamExt::next(&mut watch);
    let gone = tokio::time::timeout(Duration::from_secs(20), gone).await;
    assert_eq!(gone.unwrap().unwrap().unwrap().revision, written + 1);
    assert_eq!(store.get("bound").await, Ok(None));
    let late = store.keep_alive(lease).await;
    assert_eq!(late, Err(StoreError::NoSuchLease(lease)));
    drop((store, watch));

    let store = open(dir.path()).unwrap();
    let next = store.grant(Duration::from_secs(9)).await.unwrap();
    assert!(next > lease, "a name is not used twice");
}

fn fake(transaction: &redb::WriteTransaction) -> Result<(), redb::Error> {
    const ADDED: TableDefinition<'_, &str, &str> = TableDefinition::new("added");
    transaction.open_table(ADDED)?.insert("was", "here")?;
    let mut entries = transaction.open_table(ENTRIES)?;
    entries.remove("old")?;
    Ok(())
}

fn broken(_: &redb::WriteTransaction) -> Result<(), redb::Error> {
    Err(redb::Error::Corrupted("on purpose".to_owned()))
}

const NEXT: &[Migration] = &[
    Migration {
        to: 2,
        run: |_| unreachable!("the file has format 2"),
    },
    Migration { to: 3, run: fake },
];
const FAILING: &[Migration] = &[
    Migration { to: 3, run: fake },
    Migration { to: 4, run: broken },
];

#[tokio::test]
async fn a_file_is_migrated_once_and_then_refused_by_older_releases() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store
        .commit(Transaction::new().put("old", "").put("kept", ""))
        .await
        .unwrap();
    drop(store);

    let options = EmbeddedOptions::default();
    let failed = Embedded::open_with(dir.path(), &options, FAILING);
    assert!(
        matches!(failed, Err(OpenError::Engine { .. })),
        "{failed:?}"
    );
    let store = open(dir.path()).unwrap();
    assert!(
        store.get("old").await.unwrap().is_some(),
        "nothing is half done"
    );
    drop(store);

    let store = Embedded::open_with(dir.path(), &options, NEXT).unwrap();
    assert_eq!(store.get("old").await, Ok(None));
    assert!(store.get("kept").await.unwrap().is_some());
    drop(store);

    let refused = open(dir.path()).unwrap_err();
    assert!(matches!(
        refused,
        OpenError::Newer {
            found: 3,
            known: 2,
            ..
        }
    ));
    assert!(
        refused
            .to_string()
            .contains("use the release that wrote it"),
        "{refused}"
    );
    Embedded::open_with(dir.path(), &options, NEXT).unwrap();
}

#[test]
fn every_migration_leads_one_further() {
    let steps: Vec<_> = MIGRATIONS.iter().map(|it| it.to).collect();
    assert_eq!(steps, (1..=steps.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_damaged_entry_is_named() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let database = redb::Database::open(dir.path().join("store.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(ENTRIES)
        .unwrap()
        .insert("torn", &b"short"[..])
        .unwrap();
    transaction
        .open_table(META)
        .unwrap()
        .insert("revision", 1)
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("damaged: the entry torn"), "{error}");
}
