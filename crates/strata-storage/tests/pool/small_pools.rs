//! Pools that are cut down to little: a plan that is accepted is carried out,
//! as far as chunks of the file system can be moved, and no data is lost.

use strata_storage::{PoolConfig, StoragePool};
use strata_types::storage::{Profile, VolumeKind};

use crate::world::{MIB, World, data, label, never, quiet};
use crate::writer::fill;

/// Gives back all that a plan allows, as the operation does it, and answers the
/// size of the pool before, what was planned and what was not given back.
async fn give_back_all(pool: &StoragePool) -> (u64, u64, u64) {
    let before = pool.status().await.unwrap().bytes;
    let plan = pool.plan_shrink(u64::MAX).await.unwrap();
    let mut kept = 0;
    for name in &plan.devices {
        pool.remove_device(name, &quiet, never()).await.unwrap();
    }
    for resize in &plan.resized {
        let resized = pool.resize_device(&resize.name, resize.to_bytes, &quiet, never());
        kept += resized.await.unwrap();
    }
    (before, plan.lost_bytes, kept)
}

async fn cut(files: u32, file_mib: u64, data_mib: u64, reserve_mib: u64) {
    let what = format!("{files} x {file_mib} MiB, {data_mib} used, {reserve_mib} kept free");
    let world = World::new();
    let config = PoolConfig {
        file_bytes: file_mib * MIB,
        reserve_bytes: reserve_mib * MIB,
        ..world.config(Profile::Single, files, 0)
    };
    let pool = StoragePool::open(config).await.unwrap();
    let name = label("v");
    let volume = pool.create_volume(&name, VolumeKind::Files, None, None);
    volume.await.unwrap();
    let written = fill(&data(&pool, "v").join("still"), data_mib);
    let (before, planned, kept) = give_back_all(&pool).await;
    let status = pool.status().await.unwrap();
    assert_eq!(before - status.bytes, planned - kept, "{what}");
    assert!(planned > kept, "{what}: {planned} planned, {kept} kept");
    assert!(
        status.bytes >= status.used_bytes + reserve_mib * MIB,
        "{what}"
    );
    // Room is left to write into, and nothing that was written is lost.
    let more = fill(&data(&pool, "v").join("more"), reserve_mib / 2);
    written.verify();
    more.verify();
}

#[tokio::test]
async fn pools_of_small_devices_are_cut_to_what_is_used_and_the_reserve() {
    cut(1, 512, 100, 64).await;
    cut(1, 1024, 300, 32).await;
    cut(3, 512, 250, 64).await;
    cut(3, 1024, 600, 16).await;
}

#[tokio::test]
async fn large_device_with_little_on_it_is_cut_as_far_as_its_chunks_allow() {
    // Chunks of a gigabyte, of which little is used.
    cut(1, 10 * 1024, 1, 64).await;
    cut(1, 10 * 1024, 100, 200).await;
    cut(2, 5 * 1024, 1200, 100).await;
}

#[tokio::test]
async fn pool_that_cannot_be_cut_is_refused_with_the_figures() {
    let world = World::new();
    let config = PoolConfig {
        file_bytes: 300 * MIB,
        reserve_bytes: 250 * MIB,
        ..world.config(Profile::Single, 1, 0)
    };
    let pool = StoragePool::open(config).await.unwrap();
    let refused = pool.plan_shrink(100 * MIB).await.unwrap_err().to_string();
    for figure in [250 * MIB, 200 * MIB] {
        assert!(refused.contains(&figure.to_string()), "{refused}");
    }
}
