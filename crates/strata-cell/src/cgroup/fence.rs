//! Marks of groups that the shim ends when the lease of the node ends. They are
//! attributes of the group's own directory: written without a disk, found by
//! any shim, gone with the group.

use std::ffi::CStr;
use std::io;
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::wire::{FENCED, FENCED_USER};

/// Trusted attributes cannot be set by root of a user namespace.
const NAMES: [&CStr; 2] = [FENCED, FENCED_USER];

pub(super) fn mark(dir: &Path) -> io::Result<()> {
    let mut refused = Errno::NOTSUP;
    for name in NAMES {
        match setxattr(dir, name, b"1", XattrFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(errno) => refused = errno,
        }
    }
    Err(refused.into())
}

/// One that is not marked, or gone, is fine.
pub(super) fn unmark(dir: &Path) -> io::Result<()> {
    for name in NAMES {
        match removexattr(dir, name) {
            Ok(()) | Err(Errno::NODATA | Errno::NOENT | Errno::NOTSUP | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

pub(super) fn is_marked(dir: &Path) -> bool {
    let has = |name: &&CStr| getxattr(dir, *name, &mut [0u8; 1]).is_ok();
    NAMES.iter().any(has)
}
