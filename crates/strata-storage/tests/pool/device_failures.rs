//! Devices that vanish, return false data, or come back.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use strata_storage::{NewSpare, StorageError, StoragePool};
use strata_types::storage::{DeviceState, PoolState, Profile, VolumeKind};

use crate::world::{MIB, World, data, label, never, quiet, states};
use crate::writer::{Writer, Written, fill};

async fn filled(
    world: &World,
    profile: Profile,
    files: u32,
    spares: u32,
) -> (StoragePool, Written) {
    let pool = world.open(profile, files, spares).await;
    pool.create_volume(&label("v"), VolumeKind::Files, None, None)
        .await
        .unwrap();
    let written = fill(&data(&pool, "v").join("still"), 60);
    (pool, written)
}

#[tokio::test]
async fn a_mirrored_pool_serves_without_a_device_until_it_is_replaced() {
    let world = World::new();
    let (pool, written) = filled(&world, Profile::Mirrored, 2, 1).await;
    pool.close().await.unwrap();
    drop(pool);
    fs::rename(world.image("d2"), world.image("away")).unwrap();

    let pool = world.open(Profile::Mirrored, 2, 1).await;
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Degraded);
    assert!(status.message.contains("d2"), "{}", status.message);
    assert_eq!(status.devices[1].state, DeviceState::Missing);
    written.verify();
    // It is written meanwhile: that is kept once only, and is mended too.
    let more = fill(&data(&pool, "v").join("more"), 40);
    let writer = Writer::start(&data(&pool, "v"), 1);
    writer.wait_for_files(4);
    pool.replace_device("d2", "d3", &quiet, never())
        .await
        .unwrap();
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(
        states(&status),
        [("d1", DeviceState::Online), ("d3", DeviceState::Online)]
    );
    let live = writer.stop();
    let scrub = pool.scrub(&quiet, never()).await.unwrap();
    assert_eq!((scrub.corrected, scrub.uncorrectable), (0, 0));
    pool.close().await.unwrap();
    drop(pool);

    // Everything is on the new device as well: it alone is enough. The old
    // one comes back and does no harm.
    fs::rename(world.image("d1"), world.image("gone")).unwrap();
    fs::rename(world.image("away"), world.image("d2")).unwrap();
    let _pool = world.open(Profile::Mirrored, 2, 1).await;
    for written in [&written, &more, &live] {
        written.verify();
    }
}

#[tokio::test]
async fn a_missing_device_can_be_left_out_when_others_have_room() {
    let world = World::new();
    let (pool, written) = filled(&world, Profile::Mirrored, 3, 0).await;
    pool.close().await.unwrap();
    drop(pool);
    fs::remove_file(world.image("d3")).unwrap();
    let pool = world.open(Profile::Mirrored, 3, 0).await;
    assert_eq!(pool.status().await.unwrap().state, PoolState::Degraded);
    pool.remove_device("d3", &quiet, never()).await.unwrap();
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(status.devices.len(), 2);
    written.verify();
}

#[tokio::test]
async fn a_pool_that_keeps_data_once_does_not_start_without_a_device() {
    let world = World::new();
    let (pool, written) = filled(&world, Profile::Single, 2, 0).await;
    pool.close().await.unwrap();
    drop(pool);
    fs::rename(world.image("d2"), world.image("away")).unwrap();
    let error = StoragePool::open(world.config(Profile::Single, 2, 0)).await;
    let Err(StorageError::DevicesGone { names }) = error else {
        panic!("it opened");
    };
    assert!(names[0].starts_with("d2 "), "{names:?}");
    fs::rename(world.image("away"), world.image("d2")).unwrap();
    let _pool = world.open(Profile::Single, 2, 0).await;
    written.verify();
}

#[tokio::test]
async fn a_device_that_vanishes_while_in_use_stays_one_of_the_pool() {
    let world = World::new();
    let (pool, written) = filled(&world, Profile::Mirrored, 3, 1).await;
    fs::remove_file(world.image("d2")).unwrap();
    // The file system has not noticed; its report is read again.
    pool.add_spare(NewSpare::File { bytes: 512 * MIB })
        .await
        .unwrap();
    pool.add_device("d5").await.unwrap();
    let refused = pool.remove_spare("d2").await.unwrap_err();
    assert!(matches!(refused, StorageError::DeviceState { .. }));
    drop(pool);
    let pool = world.open(Profile::Mirrored, 3, 1).await;
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Degraded);
    assert_eq!(status.devices[1].state, DeviceState::Missing);
    pool.close().await.unwrap();
    drop(pool);

    let pool = world.open(Profile::Mirrored, 3, 1).await;
    let status = pool.status().await.unwrap();
    assert_eq!(status.devices[1].state, DeviceState::Missing);
    written.verify();
    pool.replace_device("d2", "d4", &quiet, never())
        .await
        .unwrap();
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(
        states(&status),
        ["d1", "d3", "d4", "d5"].map(|name| (name, DeviceState::Online))
    );
    written.verify();
}

#[tokio::test]
async fn a_device_that_vanished_is_replaced_without_a_remount() {
    let world = World::new();
    let (pool, written) = filled(&world, Profile::Mirrored, 2, 1).await;
    fs::remove_file(world.image("d1")).unwrap();
    pool.replace_device("d1", "d3", &quiet, never())
        .await
        .unwrap();
    pool.close().await.unwrap();
    drop(pool);
    let pool = world.open(Profile::Mirrored, 2, 1).await;
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(states(&status).len(), 2);
    written.verify();
}

/// The record of a pool may be behind: a mirror that is whole is mounted.
#[tokio::test]
async fn a_mirror_is_mounted_without_a_device_that_the_record_does_not_know() {
    let world = World::new();
    let (pool, written) = filled(&world, Profile::Mirrored, 2, 0).await;
    pool.close().await.unwrap();
    drop(pool);
    let record = world.dir().join("pool.json");
    let text = fs::read_to_string(&record).unwrap();
    let known = text.replace(",\n      \"number\": 2", "");
    assert_ne!(known, text);
    fs::write(&record, known).unwrap();
    fs::remove_file(world.image("d2")).unwrap();
    let pool = world.open(Profile::Mirrored, 2, 0).await;
    assert_eq!(pool.status().await.unwrap().state, PoolState::Degraded);
    written.verify();
}

/// Writes noise over what holds data: everything but the first and the last
/// part of the file, where the file system itself is identified.
fn spoil(image: &Path, from: u64, to: u64) {
    let file = OpenOptions::new().write(true).open(image).unwrap();
    for at in (from..to).step_by(1 << 20) {
        file.write_all_at(&[0xa5; 64 << 10], at).unwrap();
    }
    file.sync_all().unwrap();
}

#[tokio::test]
async fn a_scrub_mends_what_one_copy_has_wrong() {
    let world = World::new();
    let (pool, written) = filled(&world, Profile::Mirrored, 2, 0).await;
    pool.close().await.unwrap();
    drop(pool);
    spoil(&world.image("d1"), 100 * MIB, 400 * MIB);
    let pool = world.open(Profile::Mirrored, 2, 0).await;
    let scrub = pool.scrub(&quiet, never()).await.unwrap();
    assert!(scrub.corrected > 0, "{scrub:?}");
    assert_eq!(scrub.uncorrectable, 0, "{scrub:?}");
    let status = pool.status().await.unwrap();
    assert_eq!(status.scrub.as_ref(), Some(&scrub));
    assert_eq!(status.devices[0].state, DeviceState::Failing);
    assert_eq!(status.state, PoolState::Degraded);
    assert!(status.message.contains("scrub"), "{}", status.message);
    // The next one finds nothing, and the device is well again.
    let scrub = pool.scrub(&quiet, never()).await.unwrap();
    assert_eq!((scrub.corrected, scrub.uncorrectable), (0, 0));
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    written.verify();
}

#[tokio::test]
async fn a_device_that_breaks_while_in_use_is_seen_and_replaced() {
    let world = World::new();
    let (pool, written) = filled(&world, Profile::Mirrored, 2, 1).await;
    let writer = Writer::start(&data(&pool, "v"), 1);
    writer.wait_for_files(4);
    // What is not on the device yet cannot be lost with it.
    rustix::fs::sync();
    // The file loses everything; reading beyond its end fails.
    let image = OpenOptions::new().write(true).open(world.image("d1"));
    image.unwrap().set_len(MIB).unwrap();
    let status = loop {
        writer.wait_for_files(2);
        rustix::fs::sync();
        let status = pool.status().await.unwrap();
        if status.state != PoolState::Online {
            break status;
        }
        pool.scrub(&quiet, never()).await.ok();
    };
    assert_eq!(status.state, PoolState::Degraded, "{}", status.message);
    assert_eq!(status.devices[0].state, DeviceState::Failing);
    pool.replace_device("d1", "d3", &quiet, never())
        .await
        .unwrap();
    writer.wait_for_files(4);
    let live = writer.stop();
    let scrub = pool.scrub(&quiet, never()).await.unwrap();
    assert_eq!(scrub.uncorrectable, 0);
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(status.devices.len(), 2);
    pool.close().await.unwrap();
    drop(pool);
    let _pool = world.open(Profile::Mirrored, 2, 1).await;
    written.verify();
    live.verify();
}
