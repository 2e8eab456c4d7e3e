//! Volumes: made, limited, cloned, kept, frozen, restored.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use strata_storage::{StorageError, VolumeRef};
use strata_types::storage::{Profile, VolumeKind};
use strata_types::{Error, ErrorKind};

use crate::world::{MIB, World, data, label};
use crate::writer::{Writer, fill};

fn from(text: &str) -> Option<VolumeRef> {
    Some(text.parse().unwrap())
}

#[tokio::test]
async fn volume_creation_is_idempotent_and_conflicts_are_refused() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let (name, files) = (label("v"), VolumeKind::Files);
    let first = pool
        .create_volume(&name, files, Some(64 * MIB), None)
        .await
        .unwrap();
    let again = pool.create_volume(&name, files, Some(64 * MIB), None).await;
    assert_eq!(again.unwrap(), first);
    for (kind, quota, origin) in [
        (files, None, None),
        (files, Some(65 * MIB), None),
        (VolumeKind::Disk, Some(64 * MIB), None),
        (files, Some(64 * MIB), from("w")),
    ] {
        let error = pool.create_volume(&name, kind, quota, origin).await;
        let error = Error::from(error.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    }
    let error = pool.volume(&label("none")).await.unwrap_err();
    assert_eq!(Error::from(error).kind(), ErrorKind::NotFound);
    pool.remove_volume(&name).await.unwrap();
    pool.remove_volume(&name).await.unwrap();
    assert!(pool.volumes().await.unwrap().is_empty());
}

#[tokio::test]
async fn writer_at_its_quota_fails_and_continues_after_a_resize() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let name = label("v");
    pool.create_volume(&name, VolumeKind::Files, Some(32 * MIB), None)
        .await
        .unwrap();
    pool.create_volume(&label("w"), VolumeKind::Files, None, None)
        .await
        .unwrap();
    let file = data(&pool, "v").join("file");
    let content = vec![7; 20 << 20];
    fs::write(&file, &content).unwrap();
    let error = fs::write(file.with_extension("more"), &content).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded);
    fs::remove_file(file.with_extension("more")).unwrap();
    // Others have room.
    fs::write(data(&pool, "w").join("file"), &content).unwrap();
    let error = pool.resize_volume(&name, Some(8 * MIB)).await.unwrap_err();
    assert!(matches!(error, StorageError::QuotaBelowUsed { used, .. } if used > 20 * MIB));
    let volume = pool.resize_volume(&name, Some(64 * MIB)).await.unwrap();
    assert_eq!(volume.quota_bytes, Some(64 * MIB));
    fs::write(file.with_extension("more"), &content).unwrap();
    let volume = pool.resize_volume(&name, None).await.unwrap();
    assert_eq!(volume.quota_bytes, None);
    assert!(volume.used_bytes > 40 * MIB);
    assert_eq!(fs::read(&file).unwrap(), content);
}

#[tokio::test]
async fn clones_and_snapshots_share_their_data() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let (name, files) = (label("v"), VolumeKind::Files);
    pool.create_volume(&name, files, Some(64 * MIB), None)
        .await
        .unwrap();
    fs::write(data(&pool, "v").join("a"), vec![1; 10 << 20]).unwrap();
    pool.snapshot_volume(&name, &label("one")).await.unwrap();
    fs::write(data(&pool, "v").join("a"), b"later").unwrap();
    let clone = pool
        .create_volume(&label("c"), files, Some(32 * MIB), from("v@one"))
        .await
        .unwrap();
    assert_eq!(clone.origin, "v@one");
    assert_eq!(
        fs::read(data(&pool, "c").join("a")).unwrap(),
        vec![1; 10 << 20]
    );
    assert!(clone.used_bytes >= 10 * MIB, "{clone:?}");
    assert!(clone.exclusive_bytes < MIB, "{clone:?}");
    let small = pool
        .create_volume(&label("d"), files, Some(4 * MIB), from("v@one"))
        .await;
    assert!(matches!(small, Err(StorageError::QuotaBelowUsed { .. })));
    // A snapshot is not written to, and a clone outlives what it came from.
    let snapshot = pool.mount().join("snapshots/v/one/data/a");
    assert!(fs::write(snapshot, b"x").is_err());
    pool.remove_snapshot(&name, &label("one")).await.unwrap();
    pool.remove_volume(&name).await.unwrap();
    assert_eq!(
        fs::read(data(&pool, "c").join("a")).unwrap(),
        vec![1; 10 << 20]
    );
    let missing = pool
        .create_volume(&label("e"), files, None, from("c@none"))
        .await;
    assert!(matches!(missing, Err(StorageError::NoSnapshot { .. })));
}

#[tokio::test]
async fn a_disk_has_the_size_of_its_quota_and_only_grows() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let (name, disk) = (label("disk"), VolumeKind::Disk);
    assert!(pool.create_volume(&name, disk, None, None).await.is_err());
    pool.create_volume(&name, disk, Some(100 * MIB), None)
        .await
        .unwrap();
    let file = pool.mount().join("volumes/disk/disk.raw");
    assert_eq!(fs::metadata(&file).unwrap().len(), 100 * MIB);
    pool.resize_volume(&name, Some(200 * MIB)).await.unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), 200 * MIB);
    assert!(pool.resize_volume(&name, Some(MIB)).await.is_err());
    let clone = pool
        .create_volume(&label("clone"), disk, None, from("disk"))
        .await
        .unwrap();
    assert_eq!(clone.quota_bytes, Some(200 * MIB));
}

#[tokio::test]
async fn volumes_are_frozen_atomically_under_writes() {
    let world = World::new();
    let pool = world.open(Profile::Single, 2, 0).await;
    let names = ["a", "b", "c", "d"];
    let mut writers = Vec::new();
    for name in names {
        pool.create_volume(&label(name), VolumeKind::Files, None, None)
            .await
            .unwrap();
        writers.push(Writer::start(&data(&pool, name), 1));
    }
    for writer in &writers {
        writer.wait_for_files(4);
    }
    let dir = pool.freeze("t1").await.unwrap();
    let frozen: Vec<_> = fs::read_dir(&dir).unwrap().collect();
    assert_eq!(frozen.len(), names.len());
    assert!(fs::write(dir.join("a/data/x"), b"x").is_err());
    let listed = fs::read_dir(dir.join("a/data/t0")).unwrap().count();
    assert_eq!(pool.freeze("t1").await.unwrap(), dir);
    for writer in writers {
        writer.wait_for_files(4);
        writer.stop().verify();
    }
    assert_eq!(fs::read_dir(dir.join("a/data/t0")).unwrap().count(), listed);
    pool.thaw("t1").await.unwrap();
    pool.thaw("t1").await.unwrap();
    assert!(!dir.exists());
    assert!(pool.freeze("../x").await.is_err());
}

/// One thread counts in one volume and then in the other, by renaming: seen at
/// one moment, the second is never ahead and at most one behind.
#[tokio::test]
async fn a_frozen_volume_is_never_older_than_another() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let dirs = ["a", "b"].map(|name| data(&pool, name));
    for name in ["a", "b", "c", "d"] {
        pool.create_volume(&label(name), VolumeKind::Files, None, None)
            .await
            .unwrap();
    }
    for dir in &dirs {
        fs::create_dir(dir.join("0")).unwrap();
    }
    let stop = Arc::<AtomicBool>::default();
    let (until, counted) = (Arc::clone(&stop), dirs.clone());
    let counter = std::thread::spawn(move || {
        let mut count = 0_u64;
        while !until.load(Ordering::Relaxed) {
            for dir in &counted {
                let (old, new) = (count.to_string(), (count + 1).to_string());
                fs::rename(dir.join(old), dir.join(new)).unwrap();
            }
            count += 1;
        }
    });
    let count = |dir: PathBuf| -> u64 {
        let entry = fs::read_dir(dir).unwrap().next().unwrap().unwrap();
        entry.file_name().to_str().unwrap().parse().unwrap()
    };
    for number in 0..10 {
        let frozen = pool.freeze(&format!("t{number}")).await.unwrap();
        let (a, b) = (count(frozen.join("a/data")), count(frozen.join("b/data")));
        assert!(a == b || a == b + 1, "{a} and {b} are not of one moment");
    }
    stop.store(true, Ordering::Relaxed);
    counter.join().unwrap();
}

#[tokio::test]
async fn a_restore_takes_the_place_of_a_volume_in_one_step() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let name = label("v");
    pool.create_volume(&name, VolumeKind::Files, Some(64 * MIB), None)
        .await
        .unwrap();
    fs::write(data(&pool, "v").join("a"), b"old").unwrap();
    let frozen = pool.freeze("backup").await.unwrap().join("v");
    fs::write(data(&pool, "v").join("a"), b"new").unwrap();

    let staged = pool.stage("restore", &name).await.unwrap();
    assert_eq!(pool.stage("restore", &name).await.unwrap(), staged);
    assert!(pool.adopt("restore", &name, true).await.is_err());
    fs::copy(frozen.join("volume.json"), staged.join("volume.json")).unwrap();
    symlink("/etc", staged.join("data")).unwrap();
    let hostile = pool.adopt("restore", &name, true).await.unwrap_err();
    assert!(matches!(hostile, StorageError::VolumeRecord { .. }));
    fs::remove_file(staged.join("data")).unwrap();
    fs::create_dir(staged.join("data")).unwrap();
    fs::copy(frozen.join("data/a"), staged.join("data/a")).unwrap();
    let refused = pool.adopt("restore", &name, false).await.unwrap_err();
    assert!(matches!(refused, StorageError::VolumeExists { .. }));

    for _ in 0..2 {
        let volume = pool.adopt("restore", &name, true).await.unwrap();
        assert_eq!(volume.quota_bytes, Some(64 * MIB));
        assert_eq!(volume.snapshots[0].name, "before-restore");
        assert_eq!(fs::read(data(&pool, "v").join("a")).unwrap(), b"old");
    }
    let before = pool.mount().join("snapshots/v/before-restore/data/a");
    assert_eq!(fs::read(before).unwrap(), b"new");
    pool.unstage("restore").await.unwrap();
    assert!(!staged.exists());
    // The quota holds for what was restored too.
    let error = fs::write(data(&pool, "v").join("b"), vec![1; 70 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded);
}

#[tokio::test]
async fn links_in_the_place_of_volumes_are_not_followed() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let outside = world.dir().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("keep"), b"kept").unwrap();
    symlink(&outside, pool.mount().join("volumes/link")).unwrap();
    assert!(pool.volume(&label("link")).await.is_err());
    pool.remove_volume(&label("link")).await.unwrap();
    assert_eq!(fs::read(outside.join("keep")).unwrap(), b"kept");
    assert!(fs::symlink_metadata(pool.mount().join("volumes/link")).is_err());
}

#[tokio::test]
async fn a_snapshot_during_writing_is_as_the_volume_was() {
    let world = World::new();
    let pool = world.open(Profile::Mirrored, 2, 0).await;
    let name = label("v");
    pool.create_volume(&name, VolumeKind::Files, None, None)
        .await
        .unwrap();
    let still = fill(&data(&pool, "v").join("still"), 8);
    let writer = Writer::start(&data(&pool, "v"), 2);
    for number in 0..5 {
        writer.wait_for_files(4);
        let snapshot = label(&format!("s{number}"));
        pool.snapshot_volume(&name, &snapshot).await.unwrap();
    }
    let written = writer.stop();
    for snapshot in pool.volume(&name).await.unwrap().snapshots {
        let dir = pool.mount().join("snapshots/v").join(&snapshot.name);
        let copy = fs::read(dir.join("data/still/fill3")).unwrap();
        assert_eq!(
            copy,
            fs::read(data(&pool, "v").join("still/fill3")).unwrap()
        );
    }
    pool.close().await.unwrap();
    drop(pool);
    let _pool = world.open(Profile::Mirrored, 2, 0).await;
    written.verify();
    still.verify();
}

fn make_subvolume(dir: &Path, name: &str) {
    let made = Command::new("btrfs")
        .args(["-q", "subvolume", "create", name])
        .current_dir(dir)
        .status();
    assert!(made.unwrap().success());
}

/// Deeper than there are descriptors, longer than any path, with names that
/// are no text and with subvolumes in subvolumes.
fn make_hostile(dir: &Path) {
    const DEPTH: usize = 2500;
    let latin = OsStr::from_bytes(b"caf\xe9");
    fs::create_dir(dir.join(latin)).unwrap();
    fs::write(dir.join(latin).join(latin), b"x").unwrap();
    symlink("/etc", dir.join("link")).unwrap();
    make_subvolume(dir, "outer");
    make_subvolume(&dir.join("outer"), "inner");
    fs::write(dir.join("outer/inner").join(latin), b"x").unwrap();
    let mut at = File::open(dir.join("outer/inner")).unwrap();
    for _ in 0..DEPTH {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", OFlags::DIRECTORY, Mode::empty())
            .unwrap()
            .into();
    }
    make_subvolume(
        Path::new(&format!("/proc/self/fd/{}", at.as_raw_fd())),
        "deepest",
    );
    let read_only = Command::new("btrfs")
        .args(["property", "set", "-ts"])
        .arg(dir.join("outer"))
        .args(["ro", "true"])
        .status();
    assert!(read_only.unwrap().success());
}

#[tokio::test]
async fn foreign_subvolumes_can_be_removed() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let name = label("v");
    pool.create_volume(&name, VolumeKind::Files, Some(64 * MIB), None)
        .await
        .unwrap();
    make_hostile(&data(&pool, "v"));
    let staged = pool.stage_file("t", &name).await.unwrap();
    fs::create_dir(&staged).unwrap();
    make_hostile(&staged);
    pool.unstage_file("t", &name).await.unwrap();
    assert!(!staged.parent().unwrap().exists());
    pool.remove_volume(&name).await.unwrap();
    let left = fs::read_dir(pool.mount().join("making")).unwrap().count();
    assert_eq!(left, 0);
}
