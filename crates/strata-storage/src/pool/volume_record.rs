//! `volume.json` in a volume: what it is. After a restore it is what the
//! backup held, so it is read as what an untrusted party wrote.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, renameat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use strata_types::Label;
use strata_types::storage::VolumeKind;

use super::tree;
use crate::{Result, StorageError, VolumeRef};

const NAME: &str = "volume.json";
const NEW: &str = "volume.json.new";
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// What a volume is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeRecord {
    pub(super) kind: VolumeKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quota_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) origin: String,
    pub(super) created_at_ms: i64,
    /// The restore that this came from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) adopted: String,
}

impl VolumeRecord {
    pub(super) fn new(kind: VolumeKind, quota: Option<u64>, from: Option<&VolumeRef>) -> Self {
        Self {
            kind,
            quota_bytes: quota,
            origin: from.map(ToString::to_string).unwrap_or_default(),
            created_at_ms: jiff::Timestamp::now().as_millisecond(),
            adopted: String::new(),
        }
    }

    pub(super) fn kind_text(&self) -> &'static str {
        match self.kind {
            VolumeKind::Files => "files",
            VolumeKind::Disk => "a disk",
        }
    }

    pub(super) fn read(volume: &OwnedFd, name: &Label) -> Result<Self> {
        let bad = || StorageError::VolumeRecord {
            volume: name.as_str().into(),
        };
        // Not waiting: it could be a pipe.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = tree::open(volume, NAME, flags, Mode::empty()).map_err(|_| bad())?;
        let file = File::from(file);
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(bad());
        }
        let mut text = Vec::new();
        file.take(MAX_RECORD_BYTES)
            .read_to_end(&mut text)
            .map_err(|_| bad())?;
        serde_json::from_slice(&text).map_err(|_| bad())
    }

    pub(super) fn write(&self, volume: &OwnedFd) -> Result<(), Errno> {
        let text = serde_json::to_vec(self).map_err(|_| Errno::INVAL)?;
        tree::clear(volume.as_fd(), NEW)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = tree::open(volume, NEW, flags, Mode::from_raw_mode(0o600))?;
        let written = File::from(file).write_all(&text);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        renameat(volume, NEW, volume, NAME)
    }

    /// Whether a volume that is there is the requested one.
    pub(super) fn must_be(
        &self,
        name: &Label,
        kind: VolumeKind,
        quota: Option<u64>,
        from: Option<&VolumeRef>,
    ) -> Result<()> {
        let origin = from.map(ToString::to_string).unwrap_or_default();
        let sized_by_origin = kind == VolumeKind::Disk && quota.is_none() && from.is_some();
        let how = if self.kind != kind {
            format!("it holds {}", self.kind_text())
        } else if self.origin != origin {
            match self.origin.as_str() {
                "" => "it is not a clone".into(),
                origin => format!("it was cloned from {origin}"),
            }
        } else if self.quota_bytes != quota && !sized_by_origin {
            match self.quota_bytes {
                Some(bytes) => format!("it may hold {bytes} bytes"),
                None => "it may fill the pool".into(),
            }
        } else {
            return Ok(());
        };
        Err(StorageError::VolumeExists {
            name: name.as_str().into(),
            how,
        })
    }
}
