//! Indexes and snapshots that are not what was written: named, and out of the
//! way after a repair, so that backups and prunes work again.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{PASSWORD, World, ask, look, make, save, verify};
use strata_backup::{
    BackupError, Location, RepairScope, Repaired, Repository, RepositoryConfig, Secret, Silent,
};
use strata_types::backup::{Backup, Retention};
use tokio_util::sync::CancellationToken;

/// Turns one bit around in the middle of a file.
fn flip(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a mode");
    let mut bytes = fs::read(path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("a file");
}

fn files(world: &World, dir: &str) -> Vec<PathBuf> {
    let all = look::walk(&world.path("repo").join(dir));
    all.into_iter().filter(|path| path.is_file()).collect()
}

async fn try_repair(repository: &Repository, scope: RepairScope) -> Result<Repaired, BackupError> {
    let cancel = CancellationToken::new();
    repository.repair(scope, Arc::new(Silent), cancel).await
}

async fn repair(repository: &Repository, scope: RepairScope) -> Repaired {
    try_repair(repository, scope).await.expect("a repair")
}

/// A repository with a backup of some files, which are still there.
async fn saved(world: &World) -> (Repository, Backup) {
    let source = world.path("source");
    make::plain(&source, 30, 1);
    let repository = world.repository();
    let backup = save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    (repository, backup)
}

async fn all_are_sound(world: &World, repository: &Repository) {
    for backup in repository.list().await.expect("backups") {
        let found = verify(repository, &backup.id, 100).await;
        assert!(found.is_sound(), "{found:?}");
    }
    world.check();
}

#[tokio::test]
async fn damaged_index_is_made_again_from_the_packs() {
    for scope in [RepairScope::Changed, RepairScope::All] {
        let world = World::new();
        let (repository, first) = saved(&world).await;
        let stored = files(&world, "data").len();
        for index in files(&world, "index") {
            flip(&index);
        }
        let repaired = repair(&repository, scope).await;
        assert!(!repaired.indexes.is_empty(), "{repaired:?}");
        assert_eq!(
            (repaired.lost, repaired.damaged.len()),
            (0, 0),
            "{repaired:?}"
        );
        let again = ask("op-2", &world.path("source"), 1_700_000_001_000);
        let second = save(&repository, again).await;
        // Nothing was stored again but what names the new backup.
        assert_eq!(second.files, first.files);
        assert!(files(&world, "data").len() <= stored + 1);
        all_are_sound(&world, &repository).await;
        assert_eq!(repair(&repository, RepairScope::All).await.indexes.len(), 0);
    }
}

#[tokio::test]
async fn repair_that_was_killed_after_it_moved_an_index_goes_on() {
    let world = World::new();
    let (repository, _) = saved(&world).await;
    let aside = world.path("repo/damaged/index");
    fs::create_dir_all(&aside).expect("a directory");
    for index in files(&world, "index") {
        flip(&index);
        let name = index.file_name().expect("a name");
        fs::rename(&index, aside.join(name)).expect("a file");
    }
    repair(&repository, RepairScope::Changed).await;
    all_are_sound(&world, &repository).await;
    assert!(files(&world, "damaged/index").is_empty());
}

#[tokio::test]
async fn damaged_pack_of_a_damaged_index_is_salvaged() {
    let world = World::new();
    let (repository, backup) = saved(&world).await;
    for index in files(&world, "index") {
        flip(&index);
    }
    let mut packs = files(&world, "data");
    packs.sort_by_key(|path| fs::metadata(path).expect("a pack").len());
    flip(packs.last().expect("a pack"));
    let repaired = repair(&repository, RepairScope::All).await;
    assert_eq!(repaired.damaged.len(), 1, "{repaired:?}");
    assert!(repaired.saved > 0 && repaired.lost <= 1, "{repaired:?}");
    save(
        &repository,
        ask("op-2", &world.path("source"), 1_700_000_001_000),
    )
    .await;
    assert!(verify(&repository, &backup.id, 100).await.is_sound());
    world.check();
}

#[tokio::test]
async fn backup_with_a_damaged_snapshot_is_named_until_it_is_moved_aside() {
    let world = World::new();
    let (repository, first) = saved(&world).await;
    let source = world.path("source");
    let second = save(&repository, ask("op-2", &source, 1_700_000_001_000)).await;
    flip(&world.path("repo/snapshots").join(&first.id));

    let listed = repository.list().await.expect("backups");
    let listed: Vec<_> = listed.iter().map(|one| (&one.id, one.damaged)).collect();
    assert_eq!(listed, [(&second.id, false), (&first.id, true)]);
    let found = repository.get(&first.id[..12]).await;
    let Err(BackupError::UnreadableSnapshots { ids }) = found else {
        panic!("{found:?}");
    };
    assert_eq!(ids, first.id);
    // It harms no other backup, and each look at one names it.
    let found = verify(&repository, &second.id, 100).await;
    assert!(found.is_sound(), "{found:?}");
    assert_eq!(found.unreadable, std::slice::from_ref(&first.id));
    let keep = Retention {
        last: Some(1),
        ..Retention::default()
    };
    let prune = || repository.prune(&keep, Arc::new(Silent), CancellationToken::new());
    let failed = prune().await;
    assert!(
        matches!(failed, Err(BackupError::UnreadableSnapshots { .. })),
        "{failed:?}"
    );
    // A backup goes on without, and leaves it to a person.
    let repaired = repair(&repository, RepairScope::Changed).await;
    assert_eq!(repaired.unreadable, std::slice::from_ref(&first.id));
    save(&repository, ask("op-3", &source, 1_700_000_002_000)).await;

    let repaired = repair(&repository, RepairScope::All).await;
    assert_eq!(
        repaired.set_aside,
        std::slice::from_ref(&first.id),
        "{repaired:?}"
    );
    assert!(repaired.unreadable.is_empty(), "{repaired:?}");
    let aside = files(&world, "damaged/snapshots");
    assert_eq!(aside.len(), 1, "{aside:?}");
    let left = repository.list().await.expect("backups");
    assert!(left.iter().all(|one| !one.damaged) && left.len() == 2);
    prune().await.expect("a prune");
    all_are_sound(&world, &repository).await;
}

/// Decay changes bytes and no time. A test cannot keep the time of a file that it
/// writes to, so the list gets the time that the file has afterwards.
#[tokio::test]
async fn decay_is_found_by_backups_that_read_the_oldest_packs_again() {
    let world = World::new();
    let source = world.path("source");
    make::plain(&source, 30, 1);
    let repository = Repository::new(RepositoryConfig {
        location: Location::Directory(world.path("repo")),
        password: Secret::new(PASSWORD),
        compression: 3,
        cache: Some(world.path("cache")),
    });
    save(&repository, ask("op-1", &source, 1_700_000_000_000)).await;
    repair(&repository, RepairScope::Changed).await;
    let packs = files(&world, "data");
    flip(&packs[0]);

    let mut lists = look::walk(&world.path("cache")).into_iter();
    let list = lists.find(|path| path.is_file()).expect("a list");
    let known: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&fs::read(&list).expect("a list")).expect("a list");
    assert_eq!(known.len(), packs.len());
    let stamp = |path: &Path| {
        let meta = fs::metadata(path).expect("a pack");
        meta.ctime() * 1_000_000_000 + meta.ctime_nsec()
    };
    // As an earlier release wrote it, which knew no times.
    let old = packs.iter().map(|path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), stamp(path).into())
    });
    let old: serde_json::Map<String, serde_json::Value> = old.collect();
    let text = serde_json::to_vec(&old).expect("a list");
    fs::write(&list, text).expect("a list");

    let mut found = 0;
    for _ in 0..packs.len() {
        let repaired = repair(&repository, RepairScope::Changed).await;
        // At most the one of its share, and what a repair has written.
        assert!(repaired.checked <= 3, "{repaired:?}");
        found += repaired.damaged.len();
    }
    assert_eq!(found, 1);
}
