//! A disk that is full, and then is not any more.

use std::path::PathBuf;
use std::process::Command;

use strata_store::{Embedded, EmbeddedOptions, Store as _, StoreError, Transaction};
use tempfile::TempDir;

use crate::world::next;

/// A file system of few bytes, mounted for as long as a test needs it.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new(mebibytes: u32) -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "strata-test"])
            .arg(disk.0.path())
            .status();
        assert!(mounted.unwrap().success());
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|it| it.success()) || std::thread::panicking());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_fails_commits_and_loses_nothing() {
    let disk = SmallDisk::new(12);
    let filling = disk.path("filling");
    std::fs::write(&filling, vec![1; 4 << 20]).unwrap();
    let options = EmbeddedOptions::default();
    let store = Embedded::open(&disk.path("store"), &options).unwrap();
    let mut watch = store.watch("", 0).await.unwrap();

    let large = |n: u32| {
        let both = Transaction::new().put(format!("large/{n}"), vec![n as u8; 200 << 10]);
        both.put(format!("small/{n}"), n.to_string())
    };
    let mut written = 0;
    let broken = loop {
        match store.commit(large(written)).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100, "the disk is never full");
    };
    assert!(matches!(broken, StoreError::Broken(_)), "{broken:?}");
    assert!(written > 3);
    for n in 0..5 {
        let refused = store.commit(large(written + n)).await;
        assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    }
    let kept = store.list("").await.unwrap();
    assert_eq!(kept.entries.len(), 2 * written as usize);
    assert_eq!(kept.revision, u64::from(written));

    std::fs::remove_file(&filling).unwrap();
    let works = store.commit(large(written)).await.unwrap();
    assert_eq!(works, u64::from(written) + 1);
    for revision in 1..=works {
        assert_eq!(next(&mut watch).await.unwrap().revision, revision);
    }
    let before = store.list("").await.unwrap();
    drop((store, watch));
    let store = Embedded::open(&disk.path("store"), &options).unwrap();
    assert_eq!(store.list("").await.unwrap(), before);
}
