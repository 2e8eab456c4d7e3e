//! What keeps a pod from filling the disk of the node. Which of three ways is
//! taken depends on the file system that the roots are on:
//!
//! - **btrfs** with quotas on: a subvolume per limited root, with a limit on
//!   its quota group. Quotas are never turned on by us: that is a change for
//!   all users of that file system, and can slow it down.
//! - **Project quotas** (xfs, ext4, f2fs, mounted with `prjquota`): a project
//!   id per limited root.
//! - Otherwise a **file system in a file** per limited root, on a loop device.

pub(crate) mod btrfs;
pub(crate) mod image;
mod loop_device;
mod mkfs;
pub(crate) mod project;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::fstatfs;

use crate::{RootError, sys};

/// How disk limits are enforced on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskLimits {
    /// Subvolumes with quota groups.
    Btrfs,
    Project,
    /// A file system in a file, per limited root.
    Loop,
    /// Not at all: limits are refused.
    Unsupported(String),
}

impl DiskLimits {
    /// What the file system of a directory can do, for diagnosis.
    pub fn of(dir: &Path) -> Result<Self, RootError> {
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let opened = rustix::fs::open(dir, flags, rustix::fs::Mode::empty())
            .map_err(RootError::at("open", dir))?;
        detect(std::os::fd::AsFd::as_fd(&opened), dir)
    }
}

impl fmt::Display for DiskLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Btrfs => f.write_str("by btrfs quota groups"),
            Self::Project => f.write_str("by project quotas"),
            Self::Loop => f.write_str(
                "by a file system in a file per limited pod (project quotas, or btrfs quotas, would be faster)",
            ),
            Self::Unsupported(reason) => write!(f, "not possible: {reason}"),
        }
    }
}

const BTRFS_MAGIC: i64 = 0x9123_683E;

/// Finds out what the file system of this directory can do.
pub(crate) fn detect(dir: BorrowedFd<'_>, path: &Path) -> Result<DiskLimits, RootError> {
    let kind = fstatfs(dir)
        .map_err(RootError::at("look at the file system of", path))?
        .f_type;
    if kind == BTRFS_MAGIC && btrfs::quota_is_on(dir) {
        return Ok(DiskLimits::Btrfs);
    }
    // A file system, or kernel, without quotas has an error for an answer.
    if sys::project_quota_enforced(dir).unwrap_or(false) {
        return Ok(DiskLimits::Project);
    }
    Ok(match image::possible() {
        Ok(()) => DiskLimits::Loop,
        Err(reason) => DiskLimits::Unsupported(reason),
    })
}
