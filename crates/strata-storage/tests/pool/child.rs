//! A process that is killed in the middle of a shrink.

use std::process::{Command, Stdio};

use strata_types::storage::{DeviceState, PoolState, Profile, VolumeKind};

use crate::world::{World, data, label, never, quiet, wait_for};
use crate::writer::fill;

const DIR: &str = "STRATA_STORAGE_TEST_FOLDER";

#[tokio::test]
#[ignore = "the process that the next test kills"]
async fn shrink_in_a_process() {
    let dir = std::env::var(DIR).unwrap();
    let world = World::new();
    let mut config = world.config(Profile::Single, 2, 0);
    config.dir = dir.into();
    let begun = config.dir.join("begun");
    let pool = strata_storage::StoragePool::open(config).await.unwrap();
    let progress = |moved: u64, _: u64| {
        if moved > 0 {
            std::fs::write(&begun, b"").unwrap();
        }
    };
    pool.remove_device("d1", &progress, never()).await.unwrap();
}

#[tokio::test]
async fn a_shrink_that_was_killed_is_done_again() {
    let world = World::new();
    let pool = world.open(Profile::Single, 2, 0).await;
    pool.create_volume(&label("v"), VolumeKind::Files, None, None)
        .await
        .unwrap();
    let written = fill(&data(&pool, "v"), 350);
    rustix::fs::sync();
    drop(pool);

    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::shrink_in_a_process", "--ignored"])
        .env(DIR, world.dir())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = world.dir().join("begun");
    wait_for("the shrink to begin", || {
        begun.exists() || child.try_wait().unwrap().is_some()
    });
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success(), "it was too fast to be killed");

    let pool = world.open(Profile::Single, 2, 0).await;
    let status = pool.status().await.unwrap();
    assert_eq!(status.state, PoolState::Online, "{}", status.message);
    assert_eq!(status.devices[0].state, DeviceState::Online);
    written.verify();
    pool.remove_device("d1", &quiet, never()).await.unwrap();
    let status = pool.status().await.unwrap();
    assert_eq!(status.devices[0].state, DeviceState::Spare);
    pool.close().await.unwrap();
    drop(pool);
    let _pool = world.open(Profile::Single, 2, 0).await;
    written.verify();
}
