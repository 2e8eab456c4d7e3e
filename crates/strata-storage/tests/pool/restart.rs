//! The pool is made, found again after every kind of end, and leaves nothing.

use std::fs;

use strata_storage::StoragePool;
use strata_types::storage::{DeviceState, PoolState, Profile, VolumeKind};

use crate::world::{MIB, World, data, label, loops_of, states};
use crate::writer;

#[tokio::test]
async fn a_new_pool_is_online_and_says_what_it_has() {
    let world = World::new();
    let pool = world.open(Profile::Single, 2, 1).await;
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(status.bytes, 1024 * MIB);
    assert!(status.used_bytes < 8 * MIB, "{status:?}");
    assert!(status.free_bytes > 700 * MIB, "{status:?}");
    let (online, spare) = (DeviceState::Online, DeviceState::Spare);
    assert_eq!(
        states(&status),
        [("d1", online), ("d2", online), ("d3", spare)]
    );
    let id = fs::read_to_string(pool.mount().join("pool-id")).unwrap();
    assert_eq!(id, pool.id());
    assert_eq!(loops_of(&world.dir()).len(), 2);
    pool.close().await.unwrap();
    assert!(loops_of(&world.dir()).is_empty());
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Offline);
}

#[tokio::test]
async fn a_mirrored_pool_holds_half_of_its_devices() {
    let world = World::new();
    let pool = world.open(Profile::Mirrored, 3, 0).await;
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(status.bytes, 768 * MIB);
}

#[tokio::test]
async fn pool_reopens_after_a_clean_and_an_unclean_close() {
    let world = World::new();
    let pool = world.open(Profile::Single, 2, 1).await;
    let (id, name) = (pool.id().to_owned(), label("v"));
    pool.create_volume(&name, VolumeKind::Files, Some(100 * MIB), None)
        .await
        .unwrap();
    let written = writer::fill(&data(&pool, "v"), 8);
    pool.snapshot_volume(&name, &label("s")).await.unwrap();
    drop(pool);
    for close in [false, true, false] {
        let before = world.open(Profile::Single, 2, 1).await;
        assert_eq!(before.id(), id);
        let volume = before.volume(&name).await.unwrap();
        assert_eq!(volume.quota_bytes, Some(100 * MIB));
        assert_eq!(volume.snapshots.len(), 1);
        written.verify();
        if close {
            before.close().await.unwrap();
            assert!(loops_of(&world.dir()).is_empty());
        }
    }
}

#[tokio::test]
async fn unfinished_volume_is_recreated() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    drop(pool);
    let path = world.dir().join("pool.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"ready\": true", "\"ready\": false")).unwrap();
    let pool = world.open(Profile::Single, 1, 0).await;
    assert_eq!(pool.status().await.unwrap().state, PoolState::Online);
}

#[tokio::test]
async fn half_made_things_are_cleared_away() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    pool.create_volume(&label("v"), VolumeKind::Files, None, None)
        .await
        .unwrap();
    let mount = pool.mount().to_owned();
    fs::create_dir_all(mount.join("making/gone-x/deep")).unwrap();
    fs::rename(mount.join("volumes/v"), mount.join("making/v")).unwrap();
    fs::create_dir_all(mount.join("snapshots/orphan")).unwrap();
    drop(pool);
    let pool = world.open(Profile::Single, 1, 0).await;
    assert_eq!(fs::read_dir(mount.join("making")).unwrap().count(), 0);
    assert!(!mount.join("snapshots/orphan").exists());
    assert!(pool.volumes().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_pool_is_opened_by_one_process_and_made_from_enough() {
    let world = World::new();
    let mut config = world.config(Profile::Mirrored, 1, 0);
    assert!(StoragePool::open(config.clone()).await.is_err());
    config.files = 2;
    config.file_bytes = MIB;
    assert!(StoragePool::open(config).await.is_err());
    assert!(!world.dir().join("pool.json").exists());
}

#[tokio::test]
async fn a_preallocated_pool_takes_its_room_at_once() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new();
    let mut config = world.config(Profile::Single, 1, 0);
    config.preallocate = true;
    let _pool = StoragePool::open(config).await.unwrap();
    let taken = fs::metadata(world.image("d1")).unwrap().blocks() * 512;
    assert!(taken >= 512 * MIB, "{taken}");
}

#[tokio::test]
async fn read_only_pool_is_remounted() {
    use rustix::mount::{MountFlags, mount_remount};
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    mount_remount(pool.mount(), MountFlags::RDONLY, "").unwrap();
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Offline);
    drop(pool);
    let pool = world.open(Profile::Single, 1, 0).await;
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
}
