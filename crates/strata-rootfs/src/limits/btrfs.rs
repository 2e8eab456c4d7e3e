//! A limited root as a btrfs subvolume: made and taken away in one step, its
//! quota group counts what it holds.

use std::fmt::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use rustix::io::Errno;

use crate::sys;

/// Whether quotas are on, simple or full ones.
pub(super) fn quota_is_on(dir: BorrowedFd<'_>) -> bool {
    groups(dir).is_ok_and(|groups| groups.is_dir())
}

/// The kernel shows a directory for quota groups while quotas are on.
fn groups(dir: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    let mut id = String::with_capacity(36);
    for (at, byte) in sys::btrfs_id(dir)?.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        // Writing into a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    Ok(PathBuf::from(format!("/sys/fs/btrfs/{id}/qgroups")))
}

/// Limits the subvolume that this directory is the top of; gives its number.
pub(crate) fn limit(subvolume: impl AsFd, bytes: u64) -> Result<u64, Errno> {
    sys::limit_subvolume(&subvolume, bytes)?;
    sys::subvolume_id(&subvolume)
}

/// Bytes in the subvolume, as of the last commit of the file system.
pub(crate) fn usage(dir: BorrowedFd<'_>, id: u64) -> std::io::Result<u64> {
    let file = groups(dir)?.join(format!("0_{id}/referenced"));
    let text = std::fs::read_to_string(file)?;
    text.trim().parse().map_err(|_| Errno::INVAL.into())
}

/// Takes the subvolume away, and its quota group. Newer kernels drop the
/// group themselves, once the subvolume's data is cleared away; until then
/// it cannot be dropped, which is no harm: it has no subvolume to limit.
pub(crate) fn destroy(parent: BorrowedFd<'_>, name: &str, id: u64) -> Result<(), Errno> {
    sys::destroy_subvolume(parent, name)?;
    if let Err(errno) = sys::destroy_qgroup(parent, id) {
        tracing::debug!(id, %errno, "quota group of a removed root not destroyed yet");
    }
    Ok(())
}
