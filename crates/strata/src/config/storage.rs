//! The `[storage]` section: what the storage pool is made from.
//!
//! ```toml
//! [storage]
//! profile = "mirrored"
//! devices = ["/dev/sdb", "/dev/sdc"]
//! reserve_mb = 1000
//! ```

use std::path::{Path, PathBuf};

use serde::Deserialize;
use strata_storage::PoolConfig;
use strata_types::storage::Profile;

/// What the pool is made from. Without any of it: files under the data directory.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StorageTable {
    /// Whether this server has a storage pool. Default: true.
    enabled: Option<bool>,
    /// Redundancy: `single` or `mirrored`. Default: `single`.
    profile: Option<Profile>,
    /// Block devices. Default: files in the data directory.
    #[serde(default)]
    devices: Vec<PathBuf>,
    /// Number of files. Default: 1, or 2 if mirrored.
    files: Option<u32>,
    /// Size of each in bytes; sparse. Default: 10 GB.
    file_gb: Option<u64>,
    /// Number of spare files. Default: 2.
    spare_files: Option<u32>,
    /// Takes the room of the files at once.
    #[serde(default)]
    preallocate: bool,
    /// Reserve in MB that a shrink leaves above what is used. Default: 256.
    reserve_mb: Option<u64>,
}

impl StorageTable {
    /// None where this server has no pool.
    pub(super) fn config(self, data_dir: &Path) -> Option<PoolConfig> {
        let profile = self.profile.unwrap_or_default();
        let least = match profile {
            Profile::Single => 1,
            Profile::Mirrored => 2,
        };
        self.enabled.unwrap_or(true).then(|| PoolConfig {
            dir: directory(data_dir),
            profile,
            devices: self.devices,
            files: self.files.unwrap_or(least),
            file_bytes: self.file_gb.unwrap_or(10).saturating_mul(1_000_000_000),
            spare_files: self.spare_files.unwrap_or(2),
            preallocate: self.preallocate,
            reserve_bytes: self.reserve_mb.unwrap_or(256).saturating_mul(1_000_000),
        })
    }
}

/// Where the pool of a run is.
pub(crate) fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("pool")
}
