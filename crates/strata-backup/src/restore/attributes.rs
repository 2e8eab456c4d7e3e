//! Owners, modes, times and extended attributes.
//!
//! The order matters: a change of owner takes away the special bits and the
//! capabilities, and everything changes the time.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use jiff::Timestamp;
use rustic_core::repofile::Metadata;
use rustix::fs::{Gid, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::{Errno, Result};

use super::{NOFOLLOW, mode};

/// Gives an open file or directory what it had. Returns how many extended
/// attributes were not taken.
pub(super) fn apply(file: impl AsFd, meta: &Metadata) -> Result<u64> {
    let file = file.as_fd();
    let (uid, gid) = owner(meta);
    forgive(rustix::fs::fchown(file, uid, gid))?;
    let left = set_attributes(meta, |name, value| {
        rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())
    })?;
    rustix::fs::fchmod(file, mode(meta))?;
    rustix::fs::futimens(file, &times(meta))?;
    Ok(left)
}

/// The same for what cannot be opened: links and special files.
pub(super) fn apply_by_name(
    dir: impl AsFd,
    name: &OsStr,
    meta: &Metadata,
    is_link: bool,
) -> Result<u64> {
    let dir = dir.as_fd();
    let (uid, gid) = owner(meta);
    forgive(rustix::fs::chownat(dir, name, uid, gid, NOFOLLOW))?;
    // There is no call for this by directory and name; the directory is reached
    // through its descriptor, and the name is not followed.
    let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
    let left = set_attributes(meta, |name, value| {
        rustix::fs::lsetxattr(&path, name, value, XattrFlags::empty())
    })?;
    // A link has no mode of its own. What has one was made by us a moment
    // ago in a directory of ours, so it is no link.
    if !is_link {
        rustix::fs::chmodat(dir, name, mode(meta), rustix::fs::AtFlags::empty())?;
    }
    rustix::fs::utimensat(dir, name, &times(meta), NOFOLLOW)?;
    Ok(left)
}

fn owner(meta: &Metadata) -> (Option<Uid>, Option<Gid>) {
    (meta.uid.map(Uid::from_raw), meta.gid.map(Gid::from_raw))
}

/// A process that is not root cannot give files away, and restores what it may.
fn forgive(result: Result<()>) -> Result<()> {
    match result {
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => Ok(()),
        result => result,
    }
}

fn set_attributes(meta: &Metadata, set: impl Fn(&OsStr, &[u8]) -> Result<()>) -> Result<u64> {
    let mut left = 0;
    for attribute in &meta.extended_attributes {
        let name = OsStr::from_bytes(attribute.name.as_bytes());
        let value = attribute.value.as_deref().unwrap_or_default();
        match set(name, value) {
            // Another file system, another system: the rest is still good.
            Err(Errno::NOTSUP | Errno::PERM | Errno::INVAL) => left += 1,
            result => result?,
        }
    }
    Ok(left)
}

fn times(meta: &Metadata) -> Timestamps {
    let unchanged = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    };
    let at = |time: Option<Timestamp>| {
        time.map_or(unchanged, |time| {
            // Before 1970 both parts are negative here, but not there.
            let nanoseconds = time.subsec_nanosecond();
            let borrowed = i64::from(nanoseconds < 0);
            Timespec {
                tv_sec: time.as_second() - borrowed,
                tv_nsec: (i64::from(nanoseconds) + borrowed * 1_000_000_000) as _,
            }
        })
    };
    Timestamps {
        last_access: at(meta.atime.or(meta.mtime)),
        last_modification: at(meta.mtime),
    }
}
