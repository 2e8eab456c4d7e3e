//! A store whose file was damaged: it reports that, or has lost nothing.

use std::path::Path;

use strata_store::{Embedded, EmbeddedOptions, OpenError, Store as _, Transaction};

const PAGE: usize = 4096;
const RECORDS: usize = 300;

/// A directory as it is when the program dies: copied while the store is open.
async fn died(scratch: &Path) -> u64 {
    let (live, dead) = (scratch.join("live"), scratch.join("dead"));
    let store = Embedded::open(&live, &EmbeddedOptions::default()).unwrap();
    let mut last = 0;
    for number in 0..RECORDS {
        let put = Transaction::new().put(format!("record/{number:04}"), vec![7; 300]);
        last = store.commit(put).await.unwrap();
    }
    std::fs::create_dir(&dead).unwrap();
    for name in ["store.redb", "store.revision"] {
        std::fs::copy(live.join(name), dead.join(name)).unwrap();
    }
    last
}

/// The directory of a dead one with a page overwritten.
fn with_damage(scratch: &Path, page: usize) -> std::path::PathBuf {
    let (dead, copy) = (scratch.join("dead"), scratch.join(format!("page-{page}")));
    std::fs::create_dir(&copy).unwrap();
    let mut bytes = std::fs::read(dead.join("store.redb")).unwrap();
    let at = page * PAGE;
    bytes[at + 64..at + 512].fill(0xa5);
    std::fs::write(copy.join("store.redb"), bytes).unwrap();
    std::fs::copy(dead.join("store.revision"), copy.join("store.revision")).unwrap();
    copy
}

#[tokio::test]
async fn damaged_page_never_takes_an_acknowledged_write_back_in_silence() {
    let scratch = tempfile::tempdir().unwrap();
    let last = died(scratch.path()).await;
    let length = std::fs::metadata(scratch.path().join("dead/store.redb"))
        .unwrap()
        .len();
    let pages = usize::try_from(length).unwrap() / PAGE;
    let (mut refused, mut unharmed) = (0, 0);
    // The header, and pages all over the file.
    for page in (1..pages).step_by((pages / 40).max(1)) {
        let dir = with_damage(scratch.path(), page);
        match Embedded::open(&dir, &EmbeddedOptions::default()) {
            Err(_) => refused += 1,
            Ok(store) => {
                let all = store.list("record/").await.unwrap();
                assert_eq!(all.revision, last, "page {page} took writes back");
                assert_eq!(all.entries.len(), RECORDS, "page {page}");
                assert!(
                    all.entries.iter().all(|it| it.value == vec![7; 300]),
                    "page {page}"
                );
                unharmed += 1;
            }
        }
    }
    assert!(
        refused > 0 && unharmed > 0,
        "{refused} refused, {unharmed} unharmed"
    );
}

#[tokio::test]
async fn file_that_lost_acknowledged_writes_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    let write = async |text: &str| {
        let store = Embedded::open(&dir, &EmbeddedOptions::default()).unwrap();
        let put = Transaction::new().put("key", text.to_owned());
        store.commit(put).await.unwrap()
    };
    write("first").await;
    let before = std::fs::read(dir.join("store.redb")).unwrap();
    let last = write("second").await;
    assert_eq!(Embedded::check(&dir).unwrap(), 1);
    // The disk brings back what was there before.
    std::fs::write(dir.join("store.redb"), before).unwrap();
    for _ in 0..2 {
        match Embedded::open(&dir, &EmbeddedOptions::default()) {
            Err(OpenError::RolledBack { noted, .. }) => assert_eq!(noted, last),
            other => panic!("{other:?}"),
        }
    }
    // People may decide that this is what they want.
    std::fs::remove_file(dir.join("store.revision")).unwrap();
    assert!(Embedded::open(&dir, &EmbeddedOptions::default()).is_ok());
}
