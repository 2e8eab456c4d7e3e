//! Where a source lies, held open: all that is in it is reached from there,
//! by directory and name and never by a whole path, as a tree may be deeper than
//! the kernel takes paths.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};

use crate::descend;

/// Locates something and opens nothing: no device is woken, and what may not be
/// read can still be examined.
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A directory that a walk begins in.
pub(crate) struct Root {
    pub(super) dir: OwnedFd,
    /// Its path, for people.
    pub(super) path: PathBuf,
}

impl Root {
    /// What leads to a source may be a link; what is in it is not followed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let dir = rustix::fs::open(path, PLACE | OFlags::DIRECTORY, Mode::empty())?;
        let path = path.to_owned();
        Ok(Self { dir, path })
    }

    /// Goes to a place below it.
    pub(super) fn place(&self, inside: &Path) -> io::Result<File> {
        Ok(descend::open(&self.dir, inside, PLACE, Mode::empty())?.into())
    }
}

/// A source, whatever it is.
pub(super) fn source(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, PLACE, Mode::empty())?.into())
}

/// What a directory has by this name.
pub(super) fn child(dir: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = PLACE | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?.into())
}

/// The names in a directory, in order.
pub(super) fn names(dir: impl AsFd) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = Dir::new(rustix::fs::openat(dir, ".", flags, Mode::empty())?)?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
