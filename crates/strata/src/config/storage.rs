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

/// What the pool is made from. Without any of it: files under the data folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StorageTable {
    /// Whether this server has a pool; it does unless told.
    enabled: Option<bool>,
    /// `single` unless told, or `mirrored`.
    profile: Option<Profile>,
    /// Block devices; files under the data folder unless told.
    #[serde(default)]
    devices: Vec<PathBuf>,
    /// How many files; one unless told, two where they are mirrored.
    files: Option<u32>,
    /// How large each is; 10 GB unless told. They take room as they fill.
    file_gb: Option<u64>,
    /// How many more of them wait to be used; two unless told.
    spare_files: Option<u32>,
    /// Takes the room of the files at once.
    #[serde(default)]
    preallocate: bool,
    /// The pool is never made smaller than what is used and this; 256 unless
    /// told.
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
            folder: folder(data_dir),
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
pub(crate) fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("pool")
}
