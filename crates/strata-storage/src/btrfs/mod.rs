//! btrfs through its own calls, typed: no program of the host is used but to
//! format.

mod chunks;
mod devices;
mod long;
mod space;
mod subvolumes;

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

pub(crate) use chunks::{Chunk, Stripe};
pub(crate) use devices::{DeviceInfo, Refused};
pub(crate) use long::{ReplaceState, ScrubFigures};
pub(crate) use space::Spaces;
pub(crate) use subvolumes::{
    create, destroy, info, make_read_only, make_writable, set_limit, snapshot,
};

use crate::sys::{self, Bytes};

/// A mounted btrfs, by its uppermost directory.
pub(crate) struct Fs {
    pub(crate) root: OwnedFd,
}

/// What the file system reports of itself.
pub(crate) struct FsInfo {
    pub(crate) highest_device: u64,
    pub(crate) id: [u8; 16],
}

impl Fs {
    pub(crate) fn open(mount: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            root: open(mount, flags, Mode::empty())?,
        })
    }

    /// Fails with `ENOTTY` where no btrfs is.
    pub(crate) fn info(&self) -> Result<FsInfo, Errno> {
        let mut answer = Bytes::new();
        sys::ioctl(&self.root, &sys::FS_INFO, &mut answer)?;
        Ok(FsInfo {
            highest_device: answer.get(0),
            id: answer.array(16),
        })
    }

    /// Everything written so far is on the devices when this returns.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        rustix::fs::syncfs(&self.root)?;
        // Data alone does not do it: quotas are counted by a commit.
        sys::ioctl(&self.root, &sys::SYNC, &mut Bytes::new()).map(drop)
    }

    /// After errors that it cannot recover from, the kernel rejects all writes.
    pub(crate) fn is_read_only(&self) -> Result<bool, Errno> {
        let flags = rustix::fs::fstatvfs(&self.root)?.f_flag;
        Ok(flags.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    }

    /// Turns quotas on: full ones, which count for each volume what it refers
    /// to. Repeated, it does nothing.
    pub(crate) fn enable_quota(&self) -> Result<(), Errno> {
        const ENABLE: u64 = 1;
        let mut argument = Bytes::new().with(0, ENABLE);
        sys::ioctl(&self.root, &sys::QUOTA_CTL, &mut argument).map(drop)
    }

    /// Counts everything again in the background; a count that runs goes on.
    pub(crate) fn rescan_quota(&self) -> Result<(), Errno> {
        match sys::ioctl(&self.root, &sys::QUOTA_RESCAN, &mut Bytes::new()) {
            Ok(_) | Err(Errno::INPROGRESS) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Waits for the count, if one runs.
    pub(crate) fn wait_for_quota(&self) -> Result<(), Errno> {
        sys::ioctl(&self.root, &sys::QUOTA_RESCAN_WAIT, &mut Bytes::new()).map(drop)
    }
}

/// The id of a file system as the kernel writes it.
pub(crate) fn id_text(id: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(id).hyphenated().to_string()
}
