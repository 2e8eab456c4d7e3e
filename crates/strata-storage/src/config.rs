//! What a pool is made from, and what callers name things by.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use strata_types::Label;
use strata_types::storage::Profile;

use crate::StorageError;

/// The smallest device: below it the file system has no room for itself.
pub(crate) const MIN_DEVICE: u64 = 256 << 20;

/// What the pool is made from the first time. Later only the directory and the
/// reserve count: the pool knows its devices.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Where record, files and mount are.
    pub dir: PathBuf,
    /// How often everything is kept.
    pub profile: Profile,
    /// Block devices. With none, files in the directory are the devices.
    pub devices: Vec<PathBuf>,
    /// How many files are in use at first.
    pub files: u32,
    /// How large each file is.
    pub file_bytes: u64,
    /// How many more files wait to be used.
    pub spare_files: u32,
    /// Takes the room of files in use from the disk at once. Without it, files
    /// take what is written, and a full disk under the pool means errors.
    pub preallocate: bool,
    /// Never shrink below what is used and this.
    pub reserve_bytes: u64,
}

impl PoolConfig {
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        let least = least_devices(self.profile);
        let count = if self.devices.is_empty() {
            self.files as usize
        } else {
            self.devices.len()
        };
        if count < least {
            let why = format!("a {} pool needs {least}", self.profile.as_str());
            return Err(StorageError::invalid("devices", why));
        }
        if self.devices.is_empty() {
            check_size(self.file_bytes)?;
        }
        Ok(())
    }
}

/// How many devices a pool must have.
pub(crate) const fn least_devices(profile: Profile) -> usize {
    match profile {
        Profile::Single => 1,
        Profile::Mirrored => 2,
    }
}

pub(crate) fn check_size(bytes: u64) -> Result<(), StorageError> {
    if bytes < MIN_DEVICE {
        let why = format!("a device needs {MIN_DEVICE} bytes, this has {bytes}");
        return Err(StorageError::invalid("bytes", why));
    }
    Ok(())
}

/// A device that shall wait to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewSpare {
    /// A new file in the directory of the pool.
    File { bytes: u64 },
    Device {
        /// Where it is.
        path: PathBuf,
        /// Whether what is on it may be lost.
        overwrite: bool,
    },
}

/// A volume, or a snapshot of one: `name` or `name@snapshot`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRef {
    pub volume: Label,
    /// The snapshot of it.
    pub snapshot: Option<Label>,
}

impl fmt::Display for VolumeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.volume.as_str())?;
        match &self.snapshot {
            Some(snapshot) => write!(f, "@{}", snapshot.as_str()),
            None => Ok(()),
        }
    }
}

impl FromStr for VolumeRef {
    type Err = strata_types::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (volume, snapshot) = match text.split_once('@') {
            Some((volume, snapshot)) => (volume, Some(snapshot)),
            None => (text, None),
        };
        Ok(Self {
            volume: Label::from_field("from", volume)?,
            snapshot: snapshot
                .map(|snapshot| Label::from_field("from", snapshot))
                .transpose()?,
        })
    }
}
