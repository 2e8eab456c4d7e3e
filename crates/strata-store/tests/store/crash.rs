//! Processes that are killed while they write.
//!
//! The child is this test binary again, set by a variable to write as fast as
//! it can and to print what was acknowledged.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use strata_store::{Embedded, EmbeddedOptions, Revision, Store, Transaction};

use crate::etcd_server::EtcdServer;
use crate::world::{next, until};

const DIR: &str = "STRATA_TEST_STORE_TO_WRITE_TO";
const WRITERS: u64 = 16;

fn pair(writer: u64, n: u64) -> Transaction {
    // Some of them large, so that a write is not over at once.
    let size = if n.is_multiple_of(7) { 20_000 } else { 10 };
    Transaction::new()
        .put(format!("{writer}/a"), n.to_string())
        .put(format!("{writer}/b"), n.to_string())
        .put(format!("{writer}/rest"), vec![0; size])
}

/// What was acknowledged to each writer: number and revision.
type Acknowledged = HashMap<u64, (u64, Revision)>;

/// All that was acknowledged is there, and transactions are whole.
async fn check(store: &dyn Store, acknowledged: &Acknowledged) -> HashMap<u64, u64> {
    let listing = store.list("").await.unwrap();
    let number = |key: String| {
        let entry = listing.entries.iter().find(|it| it.key == key)?;
        let n: u64 = str::from_utf8(&entry.value).unwrap().parse().unwrap();
        Some((n, entry.changed))
    };
    let mut there = HashMap::new();
    for writer in 0..WRITERS {
        let (a, b) = (number(format!("{writer}/a")), number(format!("{writer}/b")));
        assert_eq!(a, b, "a transaction is half there");
        if let Some((n, revision)) = acknowledged.get(&writer) {
            let (found, changed) = a.expect("what was acknowledged is there");
            // At most the one after it was under way.
            assert!(
                found == *n || found == n + 1,
                "{found} is there, {n} was acknowledged"
            );
            assert!(changed >= *revision && listing.revision >= *revision);
        }
        if let Some((n, _)) = a {
            there.insert(writer, n);
        }
    }
    there
}

#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Embedded::open(Path::new(&dir), &EmbeddedOptions::default());
        let store = Arc::new(store.unwrap());
        let write = |writer: u64| {
            let store = store.clone();
            async move {
                let last = store.get(&format!("{writer}/a")).await.unwrap();
                let last = last.map(|it| str::from_utf8(&it.value).unwrap().parse().unwrap());
                let mut n: u64 = last.unwrap_or(0);
                loop {
                    n += 1;
                    let revision = store.commit(pair(writer, n)).await.unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "ack {writer} {n} {revision}").unwrap();
                    out.flush().unwrap();
                }
            }
        };
        join_all((0..WRITERS).map(|it| tokio::spawn(write(it)))).await;
    });
}

#[tokio::test]
async fn a_file_whose_creation_was_cut_short_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store.redb");
    // As the engine leaves it when it dies before its last write.
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let store = Embedded::open(dir.path(), &EmbeddedOptions::default()).unwrap();
    assert!(store.list("").await.unwrap().entries.is_empty());
    drop(store);
}

#[tokio::test]
async fn a_store_whose_first_bytes_are_lost_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store.redb");
    let store = Embedded::open(dir.path(), &EmbeddedOptions::default()).unwrap();
    store.commit(pair(1, 1)).await.unwrap();
    drop(store);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[..9].fill(0);
    std::fs::write(&file, &bytes).unwrap();
    Embedded::open(dir.path(), &EmbeddedOptions::default()).unwrap_err();
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    // The same for what was never a store.
    std::fs::write(&file, b"years of work, and no database").unwrap();
    Embedded::open(dir.path(), &EmbeddedOptions::default()).unwrap_err();
    let left = std::fs::read(&file).unwrap();
    assert_eq!(left, b"years of work, and no database");
}

#[tokio::test]
async fn acknowledged_writes_survive_a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let (mut revision, mut all) = (0, Acknowledged::new());
    for round in 0..25_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Killed sometimes while it opens, mostly in full swing.
        let kill_after = (round * 37) % 500;
        let mut seen = 0;
        if kill_after == 0 {
            child.kill().unwrap();
        }
        for line in lines {
            let line = line.unwrap();
            let Some(ack) = line.split_once("ack ").map(|it| it.1) else {
                continue;
            };
            let mut numbers = ack.split(' ').map(|it| it.parse::<u64>().unwrap());
            let mut number = || numbers.next().unwrap();
            let (writer, n, at) = (number(), number(), number());
            let before = all.insert(writer, (n, at));
            assert!(
                before.is_none_or(|before| before < (n, at)),
                "time went back"
            );
            assert!(at > revision, "a revision is given twice");
            seen += 1;
            if seen == kill_after {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(seen >= kill_after, "the child ended by itself");

        let store = Embedded::open(dir.path(), &EmbeddedOptions::default()).unwrap();
        check(&store, &all).await;
        let now = store.list("").await.unwrap().revision;
        assert!(now >= revision);
        revision = now;
    }
    assert!(all.len() as u64 == WRITERS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_killed_etcd() {
    let Some(mut server) = EtcdServer::start().await else {
        return;
    };
    let store = Arc::new(server.connect().await);
    let mut there = HashMap::new();
    for _ in 0..4 {
        let count = Arc::new(AtomicU64::new(0));
        let from = store.list("").await.unwrap().revision;
        let mut watch = store.watch("", from).await.unwrap();
        let write = |writer: u64| {
            let (store, count) = (store.clone(), count.clone());
            let mut n = there.get(&writer).copied().unwrap_or(0);
            async move {
                let mut last = None;
                loop {
                    n += 1;
                    match store.commit(pair(writer, n)).await {
                        Ok(revision) => last = Some((n, revision)),
                        Err(_) => return last.map(|last| (writer, last)),
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|it| tokio::spawn(write(it))).collect();
        until("writes to be under way", || async {
            (count.load(Ordering::SeqCst) > 200).then_some(())
        })
        .await;
        server.kill();
        let acknowledged = join_all(writers).await.into_iter();
        let acknowledged: Acknowledged = acknowledged.filter_map(Result::unwrap).collect();
        // The watch ends, and not in silence.
        let mut seen = from;
        while let Ok(changes) = next(&mut watch).await {
            assert!(changes.revision > seen);
            seen = changes.revision;
        }
        server.restart().await;
        there = check(store.as_ref(), &acknowledged).await;
        assert!(store.list("").await.unwrap().revision >= seen);
    }
}
