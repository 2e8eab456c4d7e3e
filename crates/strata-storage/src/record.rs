//! `pool.json`: the names of the devices. It is written again as a whole and
//! put in place by a rename, so it is always one or the other.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strata_types::storage::{Profile, Scrub};

use crate::{Result, StorageError};

/// What is remembered of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// Of the pool and of its file system.
    pub(crate) id: String,
    pub(crate) profile: Profile,
    /// Formatted and ready. Without it, everything is created again.
    pub(crate) ready: bool,
    pub(crate) preallocate: bool,
    /// The number in the next device's name; names are not used twice.
    pub(crate) next: u32,
    pub(crate) devices: Vec<DeviceRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scrub: Option<Scrub>,
}

/// What is remembered of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceRecord {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// A file of ours instead of a block device.
    pub(crate) file: bool,
    pub(crate) bytes: u64,
    /// The file system's number of it, while it is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
}

impl Record {
    pub(crate) fn device(&self, name: &str) -> Result<&DeviceRecord> {
        self.devices
            .iter()
            .find(|device| device.name == name)
            .ok_or_else(|| StorageError::NoDevice { name: name.into() })
    }

    pub(crate) fn next_name(&mut self) -> String {
        self.next += 1;
        format!("d{}", self.next)
    }

    /// Nothing when no pool was ever begun here.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join("pool.json");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(StorageError::at("read", &path))?,
        };
        let record = serde_json::from_slice(&text);
        record
            .map(Some)
            .map_err(|source| StorageError::Record { path, source })
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join("pool.json");
        let text = serde_json::to_vec_pretty(self).map_err(|source| StorageError::Record {
            path: path.clone(),
            source,
        })?;
        write_durably(dir, "pool.json", &text).map_err(StorageError::at("write", path))
    }
}

/// Puts a file in its place as a whole, and on the disk.
fn write_durably(dir: &Path, name: &str, text: &[u8]) -> std::io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, dir.join(name))?;
    File::open(dir)?.sync_all()
}
