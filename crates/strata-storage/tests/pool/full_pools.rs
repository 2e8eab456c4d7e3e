//! A pool filled to the brim: writers receive errors, and it goes on.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};

use strata_types::storage::{PoolState, Profile, VolumeKind};

use crate::world::{MIB, World, data, label, never, quiet};
use crate::writer::fill;

/// Large files, then small ones, then empty ones: data first, metadata last.
fn fill_to_the_brim(dir: &std::path::Path) {
    let content = vec![0x5a_u8; 1 << 20];
    for (round, size) in [1 << 20, 64 << 10, 4096, 1000, 0].into_iter().enumerate() {
        for number in 0.. {
            let path = dir.join(format!("{round}-{number}"));
            let written = File::create(&path).and_then(|mut file| file.write_all(&content[..size]));
            match written {
                Ok(()) if number < 20_000 => {}
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
        rustix::fs::sync();
    }
}

async fn fill_and_go_on(profile: Profile, files: u32) {
    let world = World::new();
    let pool = world.open(profile, files, 1).await;
    let name = label("v");
    for name in ["v", "w", "x"] {
        pool.create_volume(&label(name), VolumeKind::Files, None, None)
            .await
            .unwrap();
    }
    let kept = fill(&data(&pool, "w"), 4);
    fs::write(data(&pool, "x").join("file"), vec![1; 8 << 20]).unwrap();
    fill_to_the_brim(&data(&pool, "v"));
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert!(status.free_bytes < 16 * MIB, "{status:?}");
    // Deleting works on a full pool, and gives room.
    fs::remove_file(data(&pool, "v").join("0-0")).unwrap();
    pool.remove_volume(&label("x")).await.unwrap();
    // It mounts again while it is full.
    pool.close().await.unwrap();
    drop(pool);
    let pool = world.open(profile, files, 1).await;
    kept.verify();
    // More room by an expansion.
    pool.add_device(&format!("d{}", files + 1)).await.unwrap();
    pool.rebalance(&quiet, never()).await.unwrap();
    fill(&data(&pool, "w").join("more"), 60);
    pool.remove_volume(&name).await.unwrap();
    fill(&data(&pool, "w").join("most"), 100);
    kept.verify();
    let scrub = pool.scrub(&quiet, never()).await.unwrap();
    assert_eq!((scrub.corrected, scrub.uncorrectable), (0, 0));
    assert_eq!(pool.status().await.unwrap().state, PoolState::Online);
}

#[tokio::test]
async fn a_full_pool_goes_on() {
    fill_and_go_on(Profile::Single, 1).await;
}

#[tokio::test]
async fn a_full_mirrored_pool_goes_on() {
    fill_and_go_on(Profile::Mirrored, 2).await;
}
