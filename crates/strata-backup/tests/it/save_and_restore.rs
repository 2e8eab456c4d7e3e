//! What is saved comes back, for us and for the program that the format
//! comes from.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Watch, World, ask, look, make, restore, save, save_watched, verify};
use strata_backup::{BackupRequest, Phase, Silent, Source};
use strata_types::backup::Retention;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn every_file_type_and_attribute_is_restored() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 300, 2);
    make::odd(&source.join("odd"));
    let repository = world.repository();
    let backup = save(&repository, ask("op-1", &source, 1_700_000_000_123)).await;
    assert_eq!(backup.taken_at_ms, 1_700_000_000_123);
    assert_eq!(
        (backup.host.as_str(), backup.operation.as_str()),
        ("test", "op-1")
    );
    assert_eq!(backup.volumes, ["web"]);
    assert!(!backup.has_state);
    assert!(
        backup.bytes > 64 << 20 && backup.new_bytes > 12 << 20,
        "{backup:?}"
    );
    assert!(backup.stored_bytes > 0 && backup.stored_bytes < backup.new_bytes);

    let to = world.path("restored");
    let restored = restore(&repository, "latest", "/volumes/web", &to).await;
    assert_eq!(restored.files, backup.files);
    assert_eq!(restored.attributes_left_out, 0);
    look::assert_same(&source, &to);
    let sparse = fs::metadata(to.join("odd/sparse")).expect("a file");
    assert!(
        sparse.blocks() * 512 < 8 << 20,
        "not sparse: {}",
        sparse.blocks()
    );
    assert!(verify(&repository, &backup.id, 100).await.is_sound());
}

/// restic 0.14 restores no sockets, and no links to what is not text.
fn without_what_restic_cannot(odd: &Path) {
    for name in ["socket", "badlink"] {
        fs::remove_file(odd.join(name)).expect("an odd file");
    }
}

#[tokio::test]
async fn restic_reads_what_we_write() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 200, 1);
    make::odd(&source.join("odd"));
    without_what_restic_cannot(&source.join("odd"));
    let repository = world.repository();
    let backup = save(&repository, ask("op-1", &source, 1_700_000_000_123)).await;
    world.check();
    let to = world.path("restored");
    world.restic_ok(&[
        "restore",
        &backup.id,
        "--target",
        to.to_str().expect("text"),
    ]);
    look::assert_same(&source, &to.join("volumes/web"));
    let listed = world.restic_ok(&["snapshots", "--json"]);
    assert!(
        listed.contains(&backup.id) && listed.contains("volume=web"),
        "{listed}"
    );
}

#[tokio::test]
async fn we_read_what_restic_writes() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 100, 1);
    make::odd(&source.join("odd"));
    without_what_restic_cannot(&source.join("odd"));
    let repository = world.repository();
    let ours = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    let path = source.to_str().expect("text");
    world.restic_ok(&["backup", "--host", "elsewhere", path]);
    let all = repository.list().await.expect("backups");
    assert_eq!(all.len(), 2);
    assert_eq!(all[1], ours);
    let theirs = &all[0];
    assert_eq!(
        (theirs.host.as_str(), theirs.operation.as_str()),
        ("elsewhere", "")
    );
    let to = world.path("restored");
    restore(&repository, &theirs.id[..8], path, &to).await;
    look::assert_same(&source, &to);
    assert!(verify(&repository, &theirs.id, 100).await.is_sound());
}

#[tokio::test]
async fn a_second_backup_reads_and_stores_only_what_changed() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 500, 2);
    let repository = world.repository();
    let first = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;

    fs::write(source.join("d00/e00/f00000"), b"changed").expect("a file");
    fs::write(source.join("new"), make::noise(99, 10_000)).expect("a file");
    // Frozen copies lie elsewhere every time.
    let moved = world.path("frozen-elsewhere");
    fs::rename(&source, &moved).expect("a move");
    let watch = Arc::new(Watch::default());
    let second = ask("op-2", &moved, 1_700_000_060_000);
    let second = save_watched(&repository, second, watch.clone()).await;
    let status = watch.last();
    assert_eq!(status.phase, Phase::Saving);
    assert_eq!((status.files, status.files_read), (503, 2));
    assert_eq!(second.files, first.files + 1);
    assert!(second.new_bytes < 200_000, "{second:?}");

    let third = save(&repository, ask("op-3", &moved, 1_700_000_120_000)).await;
    assert!(third.new_bytes < 10_000, "{third:?}");
    world.check();
    let to = world.path("restored");
    restore(&repository, &second.id, "/volumes/web", &to).await;
    look::assert_same(&moved, &to);
}

#[tokio::test]
async fn an_operation_makes_one_backup() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 10, 0);
    let repository = world.repository();
    let first = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    fs::write(source.join("later"), b"later").expect("a file");
    let again = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    assert_eq!(first, again);
    assert_eq!(repository.list().await.expect("backups"), [first]);
}

#[tokio::test]
async fn hosts_that_share_a_repository_keep_their_own_backups() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 5, 0);
    let repository = world.repository();
    let from = |host: &str, number: i64| BackupRequest {
        host: host.to_owned(),
        ..ask(
            &format!("{host}-{number}"),
            &source,
            1_700_000_000_000 + number * 60_000,
        )
    };
    let theirs = save(&repository, from("b", 1)).await;
    let oldest = save(&repository, from("a", 2)).await;
    let older = save(&repository, from("a", 3)).await;
    let newest = save(&repository, from("a", 4)).await;
    let keep = Retention {
        last: Some(2),
        ..Retention::default()
    };
    let pruned = repository
        .prune(&keep, Arc::new(Silent), CancellationToken::new())
        .await
        .expect("a prune");
    assert_eq!(pruned.forgotten, [oldest.id]);
    let left = repository.list().await.expect("backups");
    assert_eq!(left, [newest, older, theirs]);
    world.check();
}

#[tokio::test]
async fn several_sources_have_their_places_and_parts_come_back_alone() {
    let world = World::new();
    let (web, db, state) = (world.path("a"), world.path("b"), world.path("c"));
    make::plain(&web, 20, 0);
    make::plain(&db, 30, 1);
    fs::create_dir(&state).expect("a directory");
    fs::write(state.join("store.redb"), b"state").expect("a file");
    let source = |path: &Path, at: &str| Source {
        path: path.to_owned(),
        at: at.to_owned(),
    };
    let ask = BackupRequest {
        sources: vec![
            source(&state, "/state"),
            source(&web, "/volumes/web"),
            source(&db, "/volumes/db"),
        ],
        volumes: vec!["web".to_owned(), "db".to_owned()],
        has_state: true,
        ..ask("op-1", &web, 1_700_000_000_000)
    };
    let repository = world.repository();
    let backup = save(&repository, ask).await;
    assert!(backup.has_state);
    assert_eq!(backup.files, 20 + 31 + 1);

    let all = world.path("all");
    restore(&repository, "latest", "/", &all).await;
    look::assert_same(&web, &all.join("volumes/web"));
    look::assert_same(&db, &all.join("volumes/db"));
    look::assert_same(&state, &all.join("state"));

    let dir = world.path("folder");
    restore(&repository, "latest", "/volumes/db/d03", &dir).await;
    look::assert_same(&db.join("d03"), &dir);

    let file = world.path("file");
    let restored = restore(&repository, "latest", "/state/store.redb", &file).await;
    assert_eq!((restored.files, restored.bytes), (1, 5));
    assert_eq!(fs::read(&file).expect("a file"), b"state");
    world.check();
}
