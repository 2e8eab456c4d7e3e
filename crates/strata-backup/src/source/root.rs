//! Where a source lies, held open: all that is in it is reached from there,
//! by folder and name and never by a whole path, as a tree may be deeper than
//! the kernel takes paths.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};

use crate::descend;

/// Says where something is and opens nothing: no device is woken, and what
/// may not be read can still be looked at.
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A folder that a walk begins in.
pub(crate) struct Root {
    pub(super) folder: OwnedFd,
    /// Its path, for people.
    pub(super) path: PathBuf,
}

impl Root {
    /// What leads to a source may be a link; what is in it is not followed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let folder = rustix::fs::open(path, PLACE | OFlags::DIRECTORY, Mode::empty())?;
        let path = path.to_owned();
        Ok(Self { folder, path })
    }

    /// Goes to a place below it.
    pub(super) fn place(&self, inside: &Path) -> io::Result<File> {
        Ok(descend::open(&self.folder, inside, PLACE, Mode::empty())?.into())
    }
}

/// A source, whatever it is.
pub(super) fn source(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, PLACE, Mode::empty())?.into())
}

/// What a folder has by this name.
pub(super) fn child(folder: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = PLACE | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?.into())
}

/// The names in a folder, in order.
pub(super) fn names(folder: impl AsFd) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = Dir::new(rustix::fs::openat(folder, ".", flags, Mode::empty())?)?;
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
