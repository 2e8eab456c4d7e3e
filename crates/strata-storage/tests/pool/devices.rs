//! Devices come and go while volumes are written; not a byte is lost.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use strata_storage::{NewSpare, StorageError, StoragePool};
use strata_types::storage::{DeviceState, PoolState, Profile, VolumeKind};
use strata_types::{Error, ErrorKind};
use tokio_util::sync::CancellationToken;

use crate::world::{MIB, World, data, label, loops_of, never, quiet, states};
use crate::writer::{Writer, Written, fill};

async fn pool_with_volume(world: &World, profile: Profile, files: u32, spares: u32) -> StoragePool {
    let pool = world.open(profile, files, spares).await;
    pool.create_volume(&label("v"), VolumeKind::Files, None, None)
        .await
        .unwrap();
    pool
}

/// From the devices, not from memory.
async fn verify_after_remount(world: &World, pool: StoragePool, written: &[&Written]) {
    let profile = pool.status().await.unwrap().profile;
    pool.close().await.unwrap();
    drop(pool);
    let pool = world.open(profile, 2, 0).await;
    for written in written {
        written.verify();
    }
    let scrub = pool.scrub(&quiet, never()).await.unwrap();
    assert_eq!((scrub.corrected, scrub.uncorrectable), (0, 0));
    assert!(scrub.bytes > 0);
}

#[tokio::test]
async fn expand_and_shrink_while_written_lose_nothing() {
    let world = World::new();
    let pool = pool_with_volume(&world, Profile::Single, 2, 2).await;
    let still = fill(&data(&pool, "v").join("still"), 100);
    let writer = Writer::start(&data(&pool, "v"), 2);
    writer.wait_for_files(8);

    let plan = pool.plan_expand(600 * MIB).await.unwrap();
    assert_eq!(plan.devices.len(), 2, "{plan:?}");
    assert_eq!(plan.gained_bytes, 600 * MIB, "of the second only a part");
    for name in &plan.devices {
        assert_eq!(
            pool.add_device(name).await.unwrap().state,
            DeviceState::Online
        );
        pool.add_device(name).await.unwrap();
    }
    assert_eq!(pool.status().await.unwrap().bytes, 2048 * MIB);
    writer.wait_for_files(8);

    // Back to two devices: the two that were first.
    let plan = pool.plan_shrink(1100 * MIB).await.unwrap();
    assert_eq!(plan.devices.len(), 2, "{plan:?}");
    let moved = AtomicU64::new(0);
    for name in ["d1", "d2"] {
        let progress = |now: u64, total: u64| {
            assert!(now <= total);
            moved.store(now, Ordering::Relaxed);
        };
        pool.remove_device(name, &progress, never()).await.unwrap();
        pool.remove_device(name, &quiet, never()).await.unwrap();
        assert!(moved.load(Ordering::Relaxed) > 0);
    }
    let status = pool.status().await.unwrap();
    let (online, spare) = (DeviceState::Online, DeviceState::Spare);
    let expected = [("d1", spare), ("d2", spare), ("d3", online), ("d4", online)];
    assert_eq!(states(&status), expected);
    assert_eq!(status.state, PoolState::Online);
    // The disk of the host has its room back, the loop devices are gone.
    assert_eq!(fs::metadata(world.image("d1")).unwrap().blocks(), 0);
    assert_eq!(loops_of(&world.dir()).len(), 2);

    writer.wait_for_files(8);
    let written = writer.stop();
    verify_after_remount(&world, pool, &[&written, &still]).await;
}

#[tokio::test]
async fn a_cancelled_shrink_leaves_the_device_in_use() {
    let world = World::new();
    let pool = pool_with_volume(&world, Profile::Single, 2, 0).await;
    let still = fill(&data(&pool, "v").join("still"), 250);
    let writer = Writer::start(&data(&pool, "v"), 1);
    writer.wait_for_files(4);
    let cancel = CancellationToken::new();
    let removal = pool.clone();
    let token = cancel.clone();
    let task = tokio::spawn(async move { removal.remove_device("d1", &quiet, token).await });
    // It leaves, and another change must wait.
    loop {
        let status = pool.status().await.unwrap();
        if status.devices[0].state == DeviceState::Leaving {
            break;
        }
        assert!(!task.is_finished());
        tokio::task::yield_now().await;
    }
    let busy = pool.scrub(&quiet, never()).await.unwrap_err();
    assert!(matches!(busy, StorageError::Busy { .. }), "{busy}");
    cancel.cancel();
    let error = task.await.unwrap().unwrap_err();
    assert!(matches!(error, StorageError::Cancelled { .. }), "{error}");
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online);
    assert_eq!(status.devices[0].state, DeviceState::Online);
    writer.wait_for_files(4);
    // At the second request, it goes.
    pool.remove_device("d1", &quiet, never()).await.unwrap();
    let written = writer.stop();
    verify_after_remount(&world, pool, &[&written, &still]).await;
}

#[tokio::test]
async fn a_shrink_below_what_is_used_is_refused_with_the_figures() {
    let world = World::new();
    let pool = pool_with_volume(&world, Profile::Single, 2, 0).await;
    fill(&data(&pool, "v"), 480);
    rustix::fs::sync();
    // All that is free but for the reserve, and no whole device.
    let plan = pool.plan_shrink(u64::MAX).await.unwrap();
    assert!(plan.devices.is_empty(), "{plan:?}");
    assert!(plan.lost_bytes < (1024 - 470 - 64) * MIB, "{plan:?}");
    assert!(plan.lost_bytes > 300 * MIB, "{plan:?}");
    let error = pool.remove_device("d1", &quiet, never()).await.unwrap_err();
    match &error {
        StorageError::BelowUsed {
            used,
            held,
            reserve,
            after,
        } => {
            assert!(*held > 0, "metadata has block groups of its own");
            assert!(*used > 470 * MIB, "{used}");
            assert_eq!((*reserve, *after), (64 * MIB, 512 * MIB));
        }
        other => panic!("{other}"),
    }
    let public = Error::from(error);
    assert_eq!(public.kind(), ErrorKind::WrongState);
    assert_eq!(pool.plan_shrink(MIB).await.unwrap().lost_bytes, MIB);
    let error = pool.plan_shrink(1000).await.unwrap_err();
    assert!(matches!(error, StorageError::DevicesTooLarge { .. }));
    let error = pool.plan_expand(MIB).await.unwrap_err();
    assert_eq!(Error::from(error).kind(), ErrorKind::Exhausted);
}

#[tokio::test]
async fn a_device_is_cut_and_grown_again_while_written() {
    let world = World::new();
    let pool = pool_with_volume(&world, Profile::Single, 1, 0).await;
    let still = fill(&data(&pool, "v").join("still"), 100);
    let writer = Writer::start(&data(&pool, "v"), 1);
    writer.wait_for_files(8);
    let plan = pool.plan_shrink(200 * MIB).await.unwrap();
    assert_eq!((plan.devices.len(), plan.resized.len()), (0, 1), "{plan:?}");
    let resize = &plan.resized[0];
    for _ in 0..2 {
        let resized = pool.resize_device(&resize.name, resize.to_bytes, &quiet, never());
        resized.await.unwrap();
    }
    assert_eq!(pool.status().await.unwrap().bytes, 312 * MIB);
    // Beyond it the file takes nothing of the host's disk.
    let image = fs::File::open(world.image("d1")).unwrap();
    assert_eq!(image.metadata().unwrap().len(), 512 * MIB);
    let beyond = rustix::fs::seek(&image, rustix::fs::SeekFrom::Data(312 * MIB));
    assert_eq!(beyond, Err(rustix::io::Errno::NXIO));
    writer.wait_for_files(8);

    let plan = pool.plan_expand(50 * MIB).await.unwrap();
    assert_eq!(
        (plan.devices.len(), plan.gained_bytes),
        (0, 50 * MIB),
        "{plan:?}"
    );
    let resize = &plan.resized[0];
    let resized = pool.resize_device(&resize.name, resize.to_bytes, &quiet, never());
    resized.await.unwrap();
    assert_eq!(pool.status().await.unwrap().bytes, 362 * MIB);
    let below = pool.resize_device("d1", 300 * MIB, &quiet, never()).await;
    below.unwrap();
    let error = pool.resize_device("d1", MIB, &quiet, never()).await;
    assert!(error.is_err());
    let error = pool.resize_device("d1", 600 * MIB, &quiet, never()).await;
    assert!(error.is_err(), "more than the file has");
    writer.wait_for_files(4);
    let written = writer.stop();
    verify_after_remount(&world, pool, &[&written, &still]).await;
}

#[tokio::test]
async fn a_device_is_replaced_while_written() {
    let world = World::new();
    let pool = pool_with_volume(&world, Profile::Mirrored, 2, 1).await;
    let still = fill(&data(&pool, "v").join("still"), 60);
    let writer = Writer::start(&data(&pool, "v"), 2);
    writer.wait_for_files(8);
    let new = pool
        .replace_device("d1", "d3", &quiet, never())
        .await
        .unwrap();
    assert_eq!(new.state, DeviceState::Online);
    // Again is no error; the old one waits.
    pool.replace_device("d1", "d3", &quiet, never())
        .await
        .unwrap();
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(status.devices[0].state, DeviceState::Spare);
    writer.wait_for_files(8);
    let written = writer.stop();
    verify_after_remount(&world, pool, &[&written, &still]).await;
}

#[tokio::test]
async fn spares_are_added_and_removed() {
    let world = World::new();
    let pool = world.open(Profile::Single, 1, 0).await;
    let spare = pool
        .add_spare(NewSpare::File { bytes: 300 * MIB })
        .await
        .unwrap();
    assert_eq!(
        (spare.name.as_str(), spare.state),
        ("d2", DeviceState::Spare)
    );
    assert!(pool.add_spare(NewSpare::File { bytes: MIB }).await.is_err());
    assert!(pool.remove_spare("d1").await.is_err());
    pool.remove_spare("d2").await.unwrap();
    pool.remove_spare("d2").await.unwrap();
    assert!(!world.image("d2").exists());
    // A name is not used twice.
    let spare = pool
        .add_spare(NewSpare::File { bytes: 300 * MIB })
        .await
        .unwrap();
    assert_eq!(spare.name, "d3");
    assert!(pool.add_device("d9").await.is_err());
    let last = pool.remove_device("d1", &quiet, never()).await;
    assert!(matches!(last, Err(StorageError::TooFewDevices { .. })));
}
