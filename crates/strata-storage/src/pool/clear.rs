//! Whole trees are taken away, also such as strangers made to be in the way:
//! with names that are no text, deeper than there are descriptors, with
//! subvolumes in subvolumes. So the walk has one folder open at a time, and
//! finds its way back by the folder above. Where that leads is compared with
//! where it came from: a folder that was moved meanwhile leads nowhere else.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;

use super::tree;
use crate::btrfs;

/// The number of the uppermost folder of every subvolume.
const SUBVOLUME: u64 = 256;

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What tells a folder from all others: subvolume and number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Id(u64, u64);

fn id(folder: &OwnedFd) -> Result<Id, Errno> {
    let stat = fstat(folder)?;
    Ok(Id(stat.st_dev, stat.st_ino))
}

/// Takes away a subvolume, a folder or a file with everything in it, also
/// subvolumes that users made inside of theirs. Gone already is no error.
pub(super) fn clear(folder: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match btrfs::destroy(folder, name.as_bytes()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // No subvolume, or one with others in it.
        Err(_) => {}
    }
    match tree::open_folder(folder, name) {
        Err(Errno::NOTDIR | Errno::LOOP) => return unlinkat(folder, name, AtFlags::empty()),
        opened => empty(opened?)?,
    }
    match unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Err(_) => btrfs::destroy(folder, name.as_bytes()),
        Ok(()) => Ok(()),
    }
}

/// Takes away everything in a folder.
fn empty(mut folder: OwnedFd) -> Result<(), Errno> {
    let mut above: Vec<Id> = Vec::new();
    let mut emptied = None;
    loop {
        if let Some((inside, errno)) = remove_until_full(&folder)? {
            let found = id(&inside)?;
            // It was empty, and still does not go.
            if emptied == Some(found) {
                return Err(errno);
            }
            // In a read-only one nothing can be taken away.
            if found.1 == SUBVOLUME {
                btrfs::make_writable(inside.as_fd()).ok();
            }
            above.push(id(&folder)?);
            folder = inside;
            continue;
        }
        let Some(back) = above.pop() else {
            return Ok(());
        };
        emptied = Some(id(&folder)?);
        folder = openat(&folder, "..", FOLDER, Mode::empty())?;
        if id(&folder)? != back {
            return Err(Errno::STALE);
        }
    }
}

/// Takes away what can be at once; gives the first folder that must be emptied
/// before, and why it did not go.
fn remove_until_full(folder: &OwnedFd) -> Result<Option<(OwnedFd, Errno)>, Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let errno = match remove(folder.as_fd(), name, entry.file_type()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(errno) => errno,
        };
        // One name only, so that the last is all that could be a link.
        return match openat(folder, name, FOLDER, Mode::empty()) {
            Ok(inside) => Ok(Some((inside, errno))),
            Err(_) => Err(errno),
        };
    }
    Ok(None)
}

fn remove(folder: BorrowedFd<'_>, name: &CStr, kind: FileType) -> Result<(), Errno> {
    if kind != FileType::Directory {
        match unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            other => return other,
        }
    }
    match unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(()),
        // A subvolume need not be empty.
        Err(errno) => btrfs::destroy(folder, name.to_bytes()).map_err(|_| errno),
    }
}
