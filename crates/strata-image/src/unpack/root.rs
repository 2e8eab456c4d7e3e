//! The layer's directory, and the way to everything beneath it.
//!
//! Every directory is opened by the kernel beneath the root, through no symlink
//! and no magic link, whatever the layer put there before. Entries of one
//! directory follow each other in a tar, so the last directory is kept open.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use super::error::shown;
use super::{UnpackError, whiteout};

const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

pub(super) struct Root {
    root: Rc<OwnedFd>,
    near: Option<(Vec<u8>, Rc<OwnedFd>)>,
}

impl Root {
    pub(super) fn open(path: &Path) -> Result<Self, UnpackError> {
        let root = rustix::fs::open(path, DIR, Mode::empty())
            .map_err(|errno| UnpackError::root(path, errno))?;
        Ok(Self {
            root: Rc::new(root),
            near: None,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// A directory beneath the root, made when it is not there.
    pub(super) fn dir(&mut self, path: &[u8]) -> Result<Rc<OwnedFd>, UnpackError> {
        if path.is_empty() {
            return Ok(Rc::clone(&self.root));
        }
        if let Some((near, fd)) = &self.near
            && near == path
        {
            return Ok(Rc::clone(fd));
        }
        let fd = match open_beneath(self.fd(), path) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => self.make_dirs(path)?,
            Err(errno) => return Err(on_the_way(errno, path)),
        };
        let fd = Rc::new(fd);
        self.near = Some((path.to_vec(), Rc::clone(&fd)));
        Ok(fd)
    }

    /// A directory that must be there already; none when it is not.
    pub(super) fn existing(&self, path: &[u8]) -> Result<Option<Rc<OwnedFd>>, UnpackError> {
        if path.is_empty() {
            return Ok(Some(Rc::clone(&self.root)));
        }
        match open_beneath(self.fd(), path) {
            Ok(fd) => Ok(Some(Rc::new(fd))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(on_the_way(errno, path)),
        }
    }

    /// Drops the kept directory: something that may be above it went.
    pub(super) fn forget(&mut self) {
        self.near = None;
    }

    fn make_dirs(&self, path: &[u8]) -> Result<OwnedFd, UnpackError> {
        let mut fd: Option<OwnedFd> = None;
        for name in path.split(|byte| *byte == b'/') {
            let parent = fd.as_ref().map_or(self.fd(), |fd| fd.as_fd());
            let next = match open_beneath(parent, name) {
                Ok(next) => next,
                Err(Errno::NOENT) => make_dir(parent, name, false)
                    .map_err(|errno| UnpackError::io("make the directory", path, errno))?,
                // A whiteout of what is now a directory again.
                Err(Errno::NOTDIR) if whiteout::is(parent, name) => {
                    rustix::fs::unlinkat(parent, name, AtFlags::empty())
                        .and_then(|()| make_dir(parent, name, true))
                        .map_err(|errno| UnpackError::io("make the directory", path, errno))?
                }
                Err(errno) => return Err(on_the_way(errno, path)),
            };
            fd = Some(next);
        }
        // An empty path never comes here.
        fd.ok_or_else(|| UnpackError::Name(shown(path)))
    }
}

fn make_dir(parent: BorrowedFd<'_>, name: &[u8], opaque: bool) -> Result<OwnedFd, Errno> {
    rustix::fs::mkdirat(parent, name, Mode::from(0o755))?;
    let fd = open_beneath(parent, name)?;
    // Not of the group of the directory above, which its bit would set.
    rustix::fs::fchown(&fd, Some(Uid::ROOT), Some(Gid::ROOT))?;
    rustix::fs::fchmod(&fd, Mode::from(0o755))?;
    if opaque {
        whiteout::make_opaque(fd.as_fd())?;
    }
    Ok(fd)
}

pub(super) fn open_beneath(parent: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(parent, path, DIR, Mode::empty(), BENEATH)
}

fn on_the_way(errno: Errno, path: &[u8]) -> UnpackError {
    match errno {
        Errno::LOOP | Errno::XDEV => UnpackError::ThroughSymlink(shown(path)),
        Errno::NOTDIR => UnpackError::NotADirectory(shown(path)),
        errno => UnpackError::io("open the directory", path, errno),
    }
}

/// Removes whatever has this name, with all that is beneath it.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    // Depth first without recursion: a layer may nest deeper than a stack.
    let mut stack = vec![(open_beneath(parent, name)?, name.to_vec())];
    while let Some((fd, _)) = stack.last() {
        let mut deeper = None;
        for entry in Dir::read_from(fd)? {
            let entry = entry?;
            let child = entry.file_name().to_bytes();
            if matches!(child, b"." | b"..") {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                deeper = Some((open_beneath(fd.as_fd(), child)?, child.to_vec()));
                break;
            }
            rustix::fs::unlinkat(fd, child, AtFlags::empty())?;
        }
        if let Some(deeper) = deeper {
            stack.push(deeper);
            continue;
        }
        if let Some((_, child)) = stack.pop() {
            let above = stack.last().map_or(parent, |(fd, _)| fd.as_fd());
            rustix::fs::unlinkat(above, child.as_slice(), AtFlags::REMOVEDIR)?;
        }
    }
    Ok(())
}
