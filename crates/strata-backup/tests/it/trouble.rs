//! What goes wrong is reported, harms nothing, and the next backup works.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{PASSWORD, Watch, World, ask, look, make, repository, restore, save, verify};
use strata_backup::{
    BackupError, BackupRequest, Progress, RepairScope, Repaired, Repository, RestoreOptions,
    Silent, Source, Status,
};
use strata_types::{Error, ErrorKind};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn wrong_password_and_wrong_location_are_distinguished() {
    let world = World::new();
    let nothing = world.repository().list().await.expect_err("nothing there");
    assert!(
        matches!(nothing, BackupError::NoRepository { .. }),
        "{nothing}"
    );
    world.repository().ensure().await.expect("a repository");
    let id = world
        .repository()
        .ensure()
        .await
        .expect("the same repository");
    assert_eq!(id.len(), 64);
    let wrong = repository(&world.path("repo"), "wrong");
    let error = wrong.ensure().await.expect_err("the wrong password");
    assert!(
        matches!(error, BackupError::WrongPassword { .. }),
        "{error}"
    );
    let error = Error::from(error);
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn a_repository_that_was_replaced_is_opened_with_the_password() {
    let world = World::new();
    let place = world.path("repo");
    let daemon = world.repository();
    daemon.ensure().await.expect("a repository");
    // Another one in its place, with a master key of its own.
    fs::remove_dir_all(&place).expect("the repository");
    let id = world.repository().ensure().await.expect("a repository");
    assert_eq!(daemon.ensure().await.expect("the new repository"), id);
    // The key file is gone: the password opens nothing, so no backup may be made.
    let kept = world.path("keys");
    fs::rename(place.join("keys"), &kept).expect("the keys");
    fs::create_dir(place.join("keys")).expect("a directory");
    daemon.list().await.expect_err("no key");
    fs::remove_dir(place.join("keys")).expect("a directory");
    fs::rename(&kept, place.join("keys")).expect("the keys");
    daemon.list().await.expect("the key is back");
    // And one whose password is another.
    fs::remove_dir_all(&place).expect("the repository");
    let other = repository(&place, "other");
    other.ensure().await.expect("a repository");
    let error = daemon.list().await.expect_err("the wrong password");
    assert!(
        matches!(error, BackupError::WrongPassword { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_repository_is_never_made_over_something_else() {
    let world = World::new();
    let place = world.path("repo");
    fs::create_dir(&place).expect("a directory");
    fs::write(place.join("thesis.txt"), b"years of work").expect("a file");
    let error = world
        .repository()
        .ensure()
        .await
        .expect_err("a foreign directory");
    assert!(matches!(error, BackupError::Occupied { .. }), "{error}");
    assert_eq!(look::walk(&place).len(), 1);
    fs::remove_file(place.join("thesis.txt")).expect("a file");

    // Killed while it was made: the key is there, the rest is not.
    world.repository().ensure().await.expect("a repository");
    fs::remove_file(place.join("config")).expect("a file");
    world.repository().ensure().await.expect("a repository");
    world.check();
}

#[tokio::test]
async fn a_damaged_pack_is_named_with_the_file_it_harms() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 30, 1);
    let repository = world.repository();
    let backup = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    let packs = look::walk(&world.path("repo/data"));
    let largest = packs
        .iter()
        .max_by_key(|path| fs::metadata(path).expect("a pack").len());
    let largest = largest.expect("a pack");
    fs::set_permissions(largest, fs::Permissions::from_mode(0o600)).expect("a mode");
    let pack = fs::File::options()
        .read(true)
        .write(true)
        .open(largest)
        .expect("a pack");
    let middle = pack.metadata().expect("a size").len() / 2;
    let mut byte = [0];
    pack.read_exact_at(&mut byte, middle).expect("a byte");
    pack.write_all_at(&[byte[0] ^ 1], middle).expect("a byte");

    let found = verify(&repository, &backup.id, 100).await;
    assert!(!found.is_sound());
    let name = largest
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    let damage = &found.damage[0];
    assert!(damage.what.contains(name), "{damage:?}");
    assert!(damage.path.starts_with("/volumes/web"), "{damage:?}");

    let ask = RestoreOptions {
        from: "/".to_owned(),
        to: world.path("restored"),
    };
    let cancel = CancellationToken::new();
    let restored = repository
        .restore("latest", ask, Arc::new(Silent), cancel)
        .await;
    assert!(
        matches!(restored, Err(BackupError::Damaged { .. })),
        "{restored:?}"
    );

    fs::remove_file(largest).expect("a pack");
    let found = verify(&repository, &backup.id, 100).await;
    assert!(
        found.damage.iter().any(|damage| damage.what.contains(name)),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_read_fails_the_backup() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 30, 0);
    let missing = BackupRequest {
        sources: vec![
            Source {
                path: source.clone(),
                at: "/volumes/web".to_owned(),
            },
            Source {
                path: world.path("gone"),
                at: "/volumes/x".to_owned(),
            },
        ],
        ..ask("op-1", &source, 1_700_000_000_000)
    };
    let repository = world.repository();
    let cancel = CancellationToken::new();
    let failed = repository.backup(missing, Arc::new(Silent), cancel).await;
    let Err(BackupError::Source { path, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(path, world.path("gone"));
    assert!(repository.list().await.expect("backups").is_empty());
    // What was stored is not stored again.
    let again = save(&repository, ask("op-2", &source, 1_700_000_000_000)).await;
    assert_eq!(again.files, 30);
    world.check();
}

/// Cancels when so many bytes are done.
struct Cancels(CancellationToken, u64);

impl Progress for Cancels {
    fn report(&self, status: &Status) {
        if status.bytes >= self.1 {
            self.0.cancel();
        }
    }
}

#[tokio::test]
async fn a_cancelled_backup_stops_and_leaves_the_repository_whole() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 100, 6);
    let repository = world.repository();
    let cancel = CancellationToken::new();
    let progress = Arc::new(Cancels(cancel.clone(), 1));
    let slow = BackupRequest {
        bytes_per_second: Some(1 << 20),
        ..ask("op-1", &source, 1_700_000_000_000)
    };
    let start = Instant::now();
    let failed = repository.backup(slow, progress, cancel).await;
    assert!(matches!(failed, Err(BackupError::Cancelled)), "{failed:?}");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    assert!(look::walk(&world.path("repo/locks")).is_empty());
    save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    world.check();
}

#[tokio::test]
async fn the_pace_holds() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 0, 1);
    let slow = BackupRequest {
        bytes_per_second: Some(2 << 20),
        ..ask("op-1", &source, 1_700_000_000_000)
    };
    let watch = Arc::new(Watch::default());
    let start = Instant::now();
    let backup = crate::common::save_watched(&world.repository(), slow, watch).await;
    // Six megabytes, of which one may have gathered.
    assert!(backup.stored_bytes > 6 << 20);
    assert!(
        start.elapsed() > Duration::from_millis(2400),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn exclusive_lock_of_another_process_is_respected() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 10, 0);
    let repository = world.repository();
    save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;

    // A lock that looks like that of a living process: ours.
    let lock = hold_a_lock(&world, true);
    let failed = repository.list().await;
    assert!(failed.is_ok(), "who only lists disturbs nobody");
    let cancel = CancellationToken::new();
    let next = ask("op-2", &source, 1_700_000_000_000);
    let failed = repository.backup(next, Arc::new(Silent), cancel).await;
    let Err(BackupError::Locked { by }) = failed else {
        panic!("{failed:?}");
    };
    assert!(by.contains("alone"), "{by}");
    drop(lock);
    save(&repository, ask("op-2", &source, 1_700_000_000_000)).await;

    let _shared = hold_a_lock(&world, false);
    save(&repository, ask("op-3", &source, 1_700_000_000_000)).await;
    let keep = strata_types::backup::Retention {
        last: Some(1),
        ..Default::default()
    };
    let cancel = CancellationToken::new();
    let failed = repository.prune(&keep, Arc::new(Silent), cancel).await;
    assert!(
        matches!(failed, Err(BackupError::Locked { .. })),
        "{failed:?}"
    );
}

/// A restic that is at work for as long as its standard input is open.
struct Busy(std::process::Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hold_a_lock(world: &World, exclusive: bool) -> Box<dyn std::any::Any> {
    let before = look::walk(&world.path("repo/locks")).len();
    let mut restic = std::process::Command::new("restic");
    restic
        .args(["--no-cache", "--quiet", "--repo"])
        .arg(world.path("repo"));
    restic.env("RESTIC_PASSWORD", PASSWORD);
    if exclusive {
        // A check reads all indexes; one that is a pipe which is never written to
        // takes forever.
        let pipe = world.path("repo/index").join("f".repeat(64));
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).expect("a pipe");
        restic.arg("check");
    } else {
        restic
            .args(["backup", "--stdin"])
            .stdin(std::process::Stdio::piped());
    }
    let child = Busy(restic.spawn().expect("restic"));
    let until = Instant::now() + Duration::from_secs(30);
    while look::walk(&world.path("repo/locks")).len() == before {
        assert!(Instant::now() < until, "restic took no lock");
        std::thread::yield_now();
    }
    let pipe = world.path("repo/index").join("f".repeat(64));
    // It looks for other locks a second time before it reads, and gives up for
    // one of ours that it finds. A pipe can be opened once it is read.
    let opened = exclusive.then(|| {
        loop {
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
            match rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()) {
                Ok(opened) => break opened,
                Err(error) => assert!(Instant::now() < until, "restic reads nothing: {error}"),
            }
            std::thread::yield_now();
        }
    });
    Box::new((child, RemovesOnDrop(pipe), opened))
}

struct RemovesOnDrop(PathBuf);

impl Drop for RemovesOnDrop {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn restore_does_not_overwrite_existing_files() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 10, 0);
    let repository = world.repository();
    save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    let to = world.path("there");
    fs::create_dir(&to).expect("a directory");
    restore(&repository, "latest", "/volumes/web/d00", &to).await;
    for (from, to) in [
        ("/volumes/web", to.as_path()),
        ("/volumes/web/d00/e00/f00000", Path::new("/etc/passwd")),
    ] {
        let ask = RestoreOptions {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let failed = repository
            .restore("latest", ask, Arc::new(Silent), CancellationToken::new())
            .await;
        assert!(
            matches!(failed, Err(BackupError::Exists { .. })),
            "{failed:?}"
        );
    }
    for id in ["ffff", "", "zz"] {
        let failed = repository.get(id).await;
        assert!(
            matches!(failed, Err(BackupError::NoBackup { .. })),
            "{failed:?}"
        );
    }
}

/// Turns one bit around in the middle of a file.
fn damage(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a mode");
    let file = fs::File::options().read(true).write(true).open(path);
    let file = file.expect("a file");
    let middle = file.metadata().expect("a size").len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).expect("a byte");
    file.write_all_at(&[byte[0] ^ 1], middle).expect("a byte");
}

fn packs(world: &World) -> Vec<PathBuf> {
    look::walk(&world.path("repo/data"))
        .into_iter()
        .filter(|path| path.is_file())
        .collect()
}

async fn repair(repository: &Repository, scope: RepairScope) -> Repaired {
    let cancel = CancellationToken::new();
    let repaired = repository.repair(scope, Arc::new(Silent), cancel).await;
    repaired.expect("a repair")
}

#[tokio::test]
async fn damaged_packs_are_stored_again_and_all_backups_heal() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 30, 1);
    let repository = world.repository();
    let first = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    for pack in packs(&world) {
        damage(&pack);
    }
    assert!(!verify(&repository, &first.id, 100).await.is_sound());
    let repaired = repair(&repository, RepairScope::All).await;
    assert_eq!(
        repaired.damaged.len() as u64,
        repaired.checked,
        "{repaired:?}"
    );
    assert!(repaired.lost > 0, "{repaired:?}");
    let second = save(&repository, ask("op-2", &source, 1_700_000_001_000)).await;
    for id in [&first.id, &second.id] {
        let found = verify(&repository, id, 100).await;
        assert!(found.is_sound(), "{found:?}");
    }
    world.check();
    assert_eq!(
        repair(&repository, RepairScope::All).await.damaged,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn good_blobs_of_a_damaged_pack_are_salvaged_when_the_source_is_gone() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 30, 1);
    let repository = world.repository();
    let backup = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    let mut all = packs(&world);
    all.sort_by_key(|path| fs::metadata(path).expect("a pack").len());
    damage(all.last().expect("a pack"));
    fs::remove_dir_all(&source).expect("the source");
    let repaired = repair(&repository, RepairScope::All).await;
    assert_eq!(repaired.damaged.len(), 1, "{repaired:?}");
    assert!(repaired.saved > 0 && repaired.lost <= 1, "{repaired:?}");
    // At most the one piece is missing, with the file it was of.
    let found = verify(&repository, &backup.id, 100).await;
    let files = found.damage.iter().filter(|one| one.path.is_absolute());
    assert!(files.count() <= 1, "{found:?}");
}

#[tokio::test]
async fn only_packs_that_changed_are_read_again() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 30, 1);
    let repository = Repository::new(strata_backup::RepositoryConfig {
        location: strata_backup::Location::Directory(world.path("repo")),
        password: strata_backup::Secret::new(PASSWORD),
        compression: 3,
        cache: Some(world.path("cache")),
    });
    save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    let count = packs(&world).len() as u64;
    assert_eq!(
        repair(&repository, RepairScope::Changed).await.checked,
        count
    );
    assert_eq!(repair(&repository, RepairScope::Changed).await.checked, 0);
    damage(&packs(&world)[0]);
    let repaired = repair(&repository, RepairScope::Changed).await;
    assert_eq!(
        (repaired.checked, repaired.damaged.len()),
        (1, 1),
        "{repaired:?}"
    );
    assert_eq!(repair(&repository, RepairScope::All).await.damaged.len(), 0);
}
