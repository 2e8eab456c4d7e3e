//! A pool in a directory of its own, which leaves nothing behind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use strata_storage::{PoolConfig, StoragePool};
use strata_types::Label;
use strata_types::storage::{DeviceState, Pool, Profile};
use tokio_util::sync::CancellationToken;

pub(crate) const MIB: u64 = 1 << 20;

/// The directory of a pool. Unmounts and detaches whatever is left at the end.
pub(crate) struct World {
    dir: tempfile::TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        if let Err(error) = strata_storage::remove(self.dir.path()) {
            tracing::error!(%error, "a pool was left behind");
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().join("pool")
    }

    pub(crate) fn image(&self, name: &str) -> PathBuf {
        self.dir().join("devices").join(format!("{name}.img"))
    }

    pub(crate) fn config(&self, profile: Profile, files: u32, spares: u32) -> PoolConfig {
        PoolConfig {
            dir: self.dir(),
            profile,
            devices: Vec::new(),
            files,
            file_bytes: 512 * MIB,
            spare_files: spares,
            preallocate: false,
            reserve_bytes: 64 * MIB,
        }
    }

    pub(crate) async fn open(&self, profile: Profile, files: u32, spares: u32) -> StoragePool {
        StoragePool::open(self.config(profile, files, spares))
            .await
            .unwrap()
    }
}

pub(crate) fn label(text: &str) -> Label {
    text.parse().unwrap()
}

pub(crate) fn quiet(_: u64, _: u64) {}

pub(crate) fn never() -> CancellationToken {
    CancellationToken::new()
}

pub(crate) fn states(pool: &Pool) -> Vec<(&str, DeviceState)> {
    let devices = pool.devices.iter();
    devices
        .map(|device| (device.name.as_str(), device.state))
        .collect()
}

pub(crate) fn data(pool: &StoragePool, volume: &str) -> PathBuf {
    pool.mount().join("volumes").join(volume).join("data")
}

/// Loop devices that have a file of this directory.
pub(crate) fn loops_of(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block").unwrap() {
        let path = entry.unwrap().path();
        let file = std::fs::read_to_string(path.join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim()).starts_with(dir) {
            found.push(path);
        }
    }
    found
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
