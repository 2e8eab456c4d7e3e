//! A directory that nothing leaves. Every path is opened from it by calls that
//! fail if a link is on the way or if they would lead out, whatever others do
//! to the tree meanwhile (see [`descend`]).

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::descend;
use crate::error::{BackupError, Result};

const NEW_DIR: Mode = Mode::RWXU;
const NEW_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

pub(super) struct Beneath {
    root: OwnedFd,
    path: PathBuf,
}

/// A directory in it.
pub(super) struct DirHandle(OwnedFd);

impl AsFd for DirHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Beneath {
    /// A directory that is empty or made now.
    pub(super) fn dir(path: &Path) -> Result<Self> {
        let failed = |error| BackupError::restore(path, error);
        fs::create_dir_all(path).map_err(failed)?;
        if fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(BackupError::Exists { path: path.into() });
        }
        Self::existing(path)
    }

    /// A directory that is there, whatever is in it.
    pub(super) fn existing(path: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| BackupError::restore(path, error))?;
        Ok(Self {
            root,
            path: path.to_owned(),
        })
    }

    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        descend::open(&self.root, path, flags, mode)
            .map_err(|error| BackupError::restore(self.path.join(path), error))
    }

    /// A directory by its path from the root.
    pub(super) fn open_dir(&self, path: &Path) -> Result<DirHandle> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY;
        self.open(path, flags, Mode::empty()).map(DirHandle)
    }

    /// A file that is there, to be written.
    pub(super) fn open_file(&self, path: &Path) -> Result<OwnedFd> {
        self.open(path, OFlags::WRONLY, Mode::empty())
    }

    /// A file that is not there yet.
    pub(super) fn new_file(&self, path: &Path) -> Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.open(path, flags, NEW_FILE)
    }

    /// Gives a file a further name.
    pub(super) fn link(&self, first: &Path, here: &DirHandle, path: &Path) -> Result<()> {
        let parent = first.parent().unwrap_or(Path::new(""));
        let from = self.open_dir(parent)?;
        let flags = rustix::fs::AtFlags::empty();
        rustix::fs::linkat(&from, last(first), here, last(path), flags)
            .map_err(|error| BackupError::restore(self.path.join(path), error))
    }
}

impl DirHandle {
    pub(super) fn make_dir(&self, path: &Path) -> Result<()> {
        rustix::fs::mkdirat(self, last(path), NEW_DIR)
            .map_err(|error| BackupError::restore(path, error))
    }

    /// Makes a file that is filled later, with its size.
    pub(super) fn make_file(&self, path: &Path, size: u64) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::openat(self, last(path), flags, NEW_FILE)
            .and_then(|file| rustix::fs::ftruncate(file, size))
            .map_err(|error| BackupError::restore(path, error))
    }
}

/// The last part of a path that was made of names.
pub(super) fn last(path: &Path) -> &OsStr {
    path.file_name().unwrap_or(OsStr::new("."))
}
