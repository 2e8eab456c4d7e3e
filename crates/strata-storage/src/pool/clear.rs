//! Whole trees are taken away, also such as untrusted parties made to be in the
//! way: with names that are no text, deeper than there are descriptors, with
//! subvolumes in subvolumes. So the walk has one directory open at a time, and
//! finds its way back by the directory above. Where that leads is compared with
//! where it came from: a directory that was moved meanwhile leads nowhere else.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;

use super::tree;
use crate::btrfs;

/// The number of the uppermost directory of every subvolume.
const SUBVOLUME: u64 = 256;

const DIR: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What distinguishes a directory from all others: subvolume and number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Id(u64, u64);

fn id(dir: &OwnedFd) -> Result<Id, Errno> {
    let stat = fstat(dir)?;
    Ok(Id(stat.st_dev, stat.st_ino))
}

/// Takes away a subvolume, a directory or a file with everything in it, also
/// subvolumes that users made inside of theirs. Gone already is no error.
pub(super) fn clear(dir: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match btrfs::destroy(dir, name.as_bytes()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // No subvolume, or one with others in it.
        Err(_) => {}
    }
    match tree::open_dir(dir, name) {
        Err(Errno::NOTDIR | Errno::LOOP) => return unlinkat(dir, name, AtFlags::empty()),
        opened => empty(opened?)?,
    }
    match unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Err(_) => btrfs::destroy(dir, name.as_bytes()),
        Ok(()) => Ok(()),
    }
}

/// Takes away everything in a directory.
fn empty(mut dir: OwnedFd) -> Result<(), Errno> {
    let mut above: Vec<Id> = Vec::new();
    let mut emptied = None;
    loop {
        if let Some((inside, errno)) = remove_until_full(&dir)? {
            let found = id(&inside)?;
            // It was empty, and still does not go.
            if emptied == Some(found) {
                return Err(errno);
            }
            // In a read-only one nothing can be taken away.
            if found.1 == SUBVOLUME {
                btrfs::make_writable(inside.as_fd()).ok();
            }
            above.push(id(&dir)?);
            dir = inside;
            continue;
        }
        let Some(back) = above.pop() else {
            return Ok(());
        };
        emptied = Some(id(&dir)?);
        dir = openat(&dir, "..", DIR, Mode::empty())?;
        if id(&dir)? != back {
            return Err(Errno::STALE);
        }
    }
}

/// Takes away what can be at once; gives the first directory that must be emptied
/// before, and why it did not go.
fn remove_until_full(dir: &OwnedFd) -> Result<Option<(OwnedFd, Errno)>, Errno> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let errno = match remove(dir.as_fd(), name, entry.file_type()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(errno) => errno,
        };
        // One name only, so that the last is all that could be a link.
        return match openat(dir, name, DIR, Mode::empty()) {
            Ok(inside) => Ok(Some((inside, errno))),
            Err(_) => Err(errno),
        };
    }
    Ok(None)
}

fn remove(dir: BorrowedFd<'_>, name: &CStr, kind: FileType) -> Result<(), Errno> {
    if kind != FileType::Directory {
        match unlinkat(dir, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            other => return other,
        }
    }
    match unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(()),
        // A subvolume need not be empty.
        Err(errno) => btrfs::destroy(dir, name.to_bytes()).map_err(|_| errno),
    }
}
