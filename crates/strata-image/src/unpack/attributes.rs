//! Owner, mode, attributes and time, in the order that keeps them: a change
//! of owner drops set-id bits and capabilities, a write changes the time.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::UnpackError;
use super::error::shown;
use crate::tar::{Entry, Kind};

/// Refuses attributes by which a layer would steer the overlay that it is
/// put under. Looked at before anything of the entry is made.
pub(super) fn check(entry: &Entry) -> Result<(), UnpackError> {
    for (name, _) in &entry.xattrs {
        if name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.") {
            return Err(UnpackError::OverlayAttribute {
                path: shown(&entry.path),
                name: shown(name),
            });
        }
        if name.contains(&0) || name.is_empty() || name.len() > 255 {
            return Err(UnpackError::Name(shown(name)));
        }
    }
    Ok(())
}

/// To what is open: files and directories. The time of a directory comes later.
pub(super) fn apply(fd: BorrowedFd<'_>, entry: &Entry) -> Result<(), UnpackError> {
    let fail = |errno| UnpackError::io("set owner and mode of", &entry.path, errno);
    // Also where both are root's: what is made in a directory with the
    // set-group-id bit has the group of that directory.
    rustix::fs::fchown(fd, owner(entry), group(entry)).map_err(fail)?;
    rustix::fs::fchmod(fd, Mode::from(entry.mode)).map_err(fail)?;
    for (name, value) in &entry.xattrs {
        let set = rustix::fs::fsetxattr(fd, name.as_slice(), value, XattrFlags::empty());
        tolerate(set, entry, name)?;
    }
    if entry.kind != Kind::Directory {
        rustix::fs::futimens(fd, &times(entry)).map_err(fail)?;
    }
    Ok(())
}

/// To what is not opened: symlinks, devices, pipes.
pub(super) fn apply_at(parent: impl AsFd, name: &[u8], entry: &Entry) -> Result<(), UnpackError> {
    let parent = parent.as_fd();
    let fail = |errno| UnpackError::io("set owner and mode of", &entry.path, errno);
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(parent, name, owner(entry), group(entry), flags).map_err(fail)?;
    if entry.kind != Kind::Symlink {
        // It is no symlink: we made it a moment ago, alone in this directory.
        rustix::fs::chmodat(parent, name, Mode::from(entry.mode), AtFlags::empty())
            .map_err(fail)?;
    }
    if !entry.xattrs.is_empty() {
        // No call sets attributes by directory and name; this one goes through
        // the open directory and does not follow the name.
        let mut path = format!("/proc/self/fd/{}/", parent.as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        for (name, value) in &entry.xattrs {
            let set =
                rustix::fs::lsetxattr(path.as_slice(), name.as_slice(), value, XattrFlags::empty());
            tolerate(set, entry, name)?;
        }
    }
    rustix::fs::utimensat(parent, name, &times(entry), flags).map_err(fail)
}

/// A file system without this kind of attribute does without it, as every
/// other extractor has it.
fn tolerate(set: Result<(), Errno>, entry: &Entry, name: &[u8]) -> Result<(), UnpackError> {
    match set {
        Ok(()) | Err(Errno::NOTSUP) => Ok(()),
        // User attributes are for files and directories alone.
        Err(Errno::PERM) if name.starts_with(b"user.") => Ok(()),
        Err(errno) => Err(UnpackError::io("set an attribute of", &entry.path, errno)),
    }
}

pub(super) fn times(entry: &Entry) -> Timestamps {
    let (seconds, nanos) = entry.mtime;
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanos.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

fn owner(entry: &Entry) -> Option<Uid> {
    Some(Uid::from_raw(entry.uid))
}

fn group(entry: &Entry) -> Option<Gid> {
    Some(Gid::from_raw(entry.gid))
}
