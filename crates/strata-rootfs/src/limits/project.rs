//! A limited root as a project of the file system's quotas: everything made
//! in its directory inherits the project id, and the project has a limit.
//!
//! The id stands in the root's record. A process that may change the project of
//! its own files can leave the limit behind: pods need a user namespace or a
//! filter on that call, see the decision record on roots.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use crate::{RootError, sys};

/// Ids that we hand out: a range that no other program is known to use.
const FIRST: u32 = 0x5300_0000;
const COUNT: u32 = 1 << 20;
/// Quotas count bytes in blocks of so many.
const BLOCK: u64 = 1024;
/// One file per so many bytes, and some more: a bound for empty ones.
const BYTES_PER_FILE: u64 = 4096;
const MORE_FILES: u64 = 1024;

/// The ids in use by the roots of one node.
pub(crate) struct Projects {
    taken: Mutex<HashSet<u32>>,
    /// Where the search begins, so that nodes that share a file system seldom
    /// look at the same ids.
    start: u32,
}

impl Projects {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            taken: Mutex::default(),
            start: u32::try_from(seed % u64::from(COUNT)).unwrap_or(0),
        }
    }

    /// An id that a root had before this process began.
    pub(crate) fn known(&self, id: u32) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(id);
    }

    /// Takes an id that no root of ours has, and that is unknown to the file
    /// system: another node may keep its roots there too.
    pub(crate) fn take(&self, file: impl AsFd) -> Result<u32, RootError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for step in 0..COUNT {
            let id = FIRST + (self.start.wrapping_add(step)) % COUNT;
            if taken.contains(&id) || !is_unknown(file.as_fd(), id) {
                continue;
            }
            taken.insert(id);
            return Ok(id);
        }
        Err(RootError::NoProjectId)
    }

    /// Takes the limit off an id and gives it back.
    pub(crate) fn give_back(&self, file: impl AsFd, id: u32) {
        if let Err(errno) = sys::set_project_quota(file, id, 0, 0) {
            tracing::warn!(id, %errno, "project quota not removed");
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&id);
    }
}

fn is_unknown(file: BorrowedFd<'_>, id: u32) -> bool {
    match sys::project_quota(file, id) {
        Ok(quota) => quota.hard_blocks == 0 && quota.bytes == 0 && quota.inodes == 0,
        // xfs has no record of a project that never held anything.
        Err(errno) => matches!(errno, Errno::NOENT | Errno::SRCH),
    }
}

/// Limits an empty directory: the project first, so nothing is ever without it.
pub(crate) fn limit(dir: impl AsFd, id: u32, bytes: u64) -> Result<(), Errno> {
    let files = bytes / BYTES_PER_FILE + MORE_FILES;
    sys::set_project_quota(&dir, id, bytes.div_ceil(BLOCK), files)?;
    sys::set_project(&dir, id, true)
}

/// Makes a directory's project one that anything can be moved into, so that it
/// can be emptied whatever projects a pod gave to what is in it.
pub(crate) fn release(dir: impl AsFd) -> Result<(), Errno> {
    sys::set_project(dir, 0, false)
}
