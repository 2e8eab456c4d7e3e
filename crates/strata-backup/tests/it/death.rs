//! Death at any moment. A child of the test works on the repository and is
//! killed at a system call of our choosing, one after the other; after each
//! the repository is whole, and the next backup works.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::{World, ask, look, make, repository, restore, save, weight};
use strata_backup::Silent;
use strata_types::backup::Retention;
use tokio_util::sync::CancellationToken;

const WORK: &str = "STRATA_BACKUP_TEST_WORK";
const DIR: &str = "STRATA_BACKUP_TEST_FOLDER";

/// Not a test: what the child does.
#[tokio::test]
#[ignore = "the child of the other tests"]
async fn child() {
    let Ok(work) = std::env::var(WORK) else {
        return;
    };
    let dir = std::env::var(DIR).expect("a directory");
    let dir = Path::new(&dir);
    let repository = repository(&dir.join("repo"), crate::common::PASSWORD);
    if work == "prune" {
        let cancel = CancellationToken::new();
        let pruned = repository.prune(&keep(), Arc::new(Silent), cancel).await;
        pruned.expect("a prune");
    } else {
        save(
            &repository,
            ask(&work, &dir.join("source"), 1_700_000_900_000),
        )
        .await;
    }
}

fn keep() -> Retention {
    Retention {
        last: Some(1),
        ..Retention::default()
    }
}

/// Runs the child, killed at the given call; true if it lived.
fn run(world: &World, work: &str, calls: &str, when: usize) -> bool {
    let me = std::env::current_exe().expect("this program");
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e"])
        .arg(format!("trace={calls}"))
        .arg("-e")
        .arg(format!("inject={calls}:signal=KILL:when={when}"))
        .arg(me)
        .args(["--ignored", "--exact", "death::child", "--quiet"])
        .env(WORK, work)
        .env(DIR, world.path(""))
        .output()
        .expect("strace, from the Debian package of that name");
    status.status.success()
}

#[tokio::test]
async fn a_backup_that_is_killed_harms_nothing_and_is_not_stored_twice() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 50, 1);
    let repository = world.repository();
    let first = save(&repository, ask("op-0", &source, 1_700_000_000_000)).await;
    make::plain(&source.join("more"), 60, 6);
    let mut deaths = 0;
    // Every file of the repository comes into its place by a rename.
    for when in 1.. {
        if run(&world, "op-1", "rename", when) {
            break;
        }
        deaths += 1;
        world.check();
        assert!(deaths < 50);
    }
    assert!(deaths >= 3, "{deaths}");
    let backups = repository.list().await.expect("backups");
    assert_eq!(backups.len(), 2);
    let to = world.path("restored");
    restore(&repository, "latest", "/volumes/web", &to).await;
    look::assert_same(&source, &to);
    let to = world.path("first");
    restore(&repository, &first.id, "/volumes/web", &to).await;

    // What the dead have left goes with a prune, and then nothing is there
    // twice.
    let cancel = CancellationToken::new();
    let all = Retention::default();
    repository
        .prune(&all, Arc::new(Silent), cancel)
        .await
        .expect("a prune");
    world.check();
    let (stored, new) = (weight(&world.path("repo/data")), weight(&source));
    assert!(stored < new + new / 10, "{stored} for {new}");
}

#[tokio::test]
async fn a_prune_that_is_killed_harms_nothing_that_is_kept() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 60, 3);
    let repository = world.repository();
    save(&repository, ask("op-0", &source, 1_700_000_000_000)).await;
    std::fs::remove_file(source.join("large0")).expect("a file");
    std::fs::remove_dir_all(source.join("d00")).expect("a directory");
    std::fs::write(source.join("new"), make::noise(5, 100_000)).expect("a file");
    let second = save(&repository, ask("op-1", &source, 1_700_000_060_000)).await;
    let before = weight(&world.path("repo/data"));
    for calls in ["unlink", "rename"] {
        for when in 1..60 {
            if run(&world, "prune", calls, when) {
                break;
            }
            world.check();
            let to = world.path("restored");
            restore(&repository, &second.id, "/volumes/web", &to).await;
            look::assert_same(&source, &to);
            std::fs::remove_dir_all(&to).expect("a directory");
        }
    }
    assert_eq!(repository.list().await.expect("backups").len(), 1);
    let cancel = CancellationToken::new();
    repository
        .prune(&keep(), Arc::new(Silent), cancel)
        .await
        .expect("a prune");
    let after = weight(&world.path("repo/data"));
    assert!(after + (5 << 20) < before, "{after} of {before}");
    world.check();
}
