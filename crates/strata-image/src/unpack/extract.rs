//! One entry after the other, each beneath the root.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timestamps};
use rustix::io::Errno;

use super::error::shown;
use super::input::HashedInput;
use super::path::RootedPath;
use super::root::{self, Root};
use super::whiteout::{self, EntryMeaning};
use super::{Charge, ChargeHook, Limits, UnpackError, attributes};
use crate::tar::{Entry, Kind, TarReader};

const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

pub(super) struct Extractor<'a> {
    root: Root,
    limits: Limits,
    charge: ChargeHook<'a>,
    entries: u64,
    /// Sizes of files, holes included.
    bytes: u64,
    /// Times of directories, set when nothing more is put into them.
    dirs: BTreeMap<Vec<u8>, Timestamps>,
}

impl<'a> Extractor<'a> {
    pub(super) fn open(
        path: &Path,
        limits: &Limits,
        charge: ChargeHook<'a>,
    ) -> Result<Self, UnpackError> {
        Ok(Self {
            root: Root::open(path)?,
            limits: *limits,
            charge,
            entries: 0,
            bytes: 0,
            dirs: BTreeMap::new(),
        })
    }

    pub(super) fn take(
        &mut self,
        entry: &Entry,
        tar: &mut TarReader<&mut HashedInput<'_>>,
    ) -> Result<(), UnpackError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(UnpackError::TooManyEntries(self.limits.entries));
        }
        (self.charge)(Charge::Entry)?;
        self.bytes = self.bytes.saturating_add(entry.size);
        if self.bytes > self.limits.bytes {
            return Err(UnpackError::TooLarge(self.limits.bytes));
        }
        attributes::check(entry)?;
        let Some(path) = RootedPath::parse(&entry.path, self.limits.path)? else {
            return self.take_root(entry);
        };
        match whiteout::meaning(&path)? {
            EntryMeaning::BookKeeping => Ok(()),
            EntryMeaning::Opaque => {
                let dir = self.root.dir(path.dir())?;
                whiteout::make_opaque(dir.as_fd())
                    .map_err(|errno| UnpackError::io("make opaque", path.dir(), errno))
            }
            EntryMeaning::Gone(name) => {
                let dir = self.root.dir(path.dir())?;
                whiteout::make_gone(dir.as_fd(), name)
                    .map_err(|errno| UnpackError::io("make a whiteout for", path.whole(), errno))
            }
            EntryMeaning::Plain => self.take_plain(entry, &path, tar),
        }
    }

    /// Times of directories; then all is done.
    pub(super) fn finish(self) -> Result<u64, UnpackError> {
        for (path, times) in &self.dirs {
            let fd = match self.root.existing(path) {
                Ok(Some(fd)) => fd,
                // It was replaced by something else since.
                Ok(None) | Err(UnpackError::ThroughSymlink(_)) => continue,
                Err(error) => return Err(error),
            };
            rustix::fs::futimens(&fd, times)
                .map_err(|errno| UnpackError::io("set the time of", path, errno))?;
        }
        Ok(self.entries)
    }

    fn take_root(&mut self, entry: &Entry) -> Result<(), UnpackError> {
        if entry.kind != Kind::Directory {
            return Err(UnpackError::Name(shown(&entry.path)));
        }
        self.dirs.insert(Vec::new(), attributes::times(entry));
        attributes::apply(self.root.fd(), entry)
    }

    fn take_plain(
        &mut self,
        entry: &Entry,
        path: &RootedPath,
        tar: &mut TarReader<&mut HashedInput<'_>>,
    ) -> Result<(), UnpackError> {
        let dir = self.root.dir(path.dir())?;
        let name = path.name();
        match entry.kind {
            Kind::Directory => return self.dir(entry, path, &dir),
            Kind::File => {
                let fd = self.replace(path, &dir, || {
                    rustix::fs::openat(&dir, name, NEW_FILE, Mode::from(0o600))
                })?;
                write(&fd, entry, tar)?;
                return attributes::apply(fd.as_fd(), entry);
            }
            Kind::HardLink => return self.hard_link(entry, path, &dir),
            Kind::Symlink => {
                if entry.link.is_empty() || entry.link.contains(&0) {
                    return Err(UnpackError::EmptyLink(shown(&entry.path)));
                }
                self.replace(path, &dir, || {
                    rustix::fs::symlinkat(entry.link.as_slice(), &dir, name)
                })?;
            }
            Kind::CharDevice => self.node(path, &dir, FileType::CharacterDevice, entry)?,
            Kind::BlockDevice => self.node(path, &dir, FileType::BlockDevice, entry)?,
            Kind::Fifo => self.node(path, &dir, FileType::Fifo, entry)?,
        }
        attributes::apply_at(&dir, name, entry)
    }

    fn dir(
        &mut self,
        entry: &Entry,
        path: &RootedPath,
        parent: &Rc<OwnedFd>,
    ) -> Result<(), UnpackError> {
        let name = path.name();
        let fail = |errno: Errno| UnpackError::io("make the directory", path.whole(), errno);
        let make = || rustix::fs::mkdirat(parent, name, Mode::from(0o755));
        let mut opaque = false;
        if let Err(errno) = make() {
            if errno != Errno::EXIST {
                return Err(fail(errno));
            }
            if !is_directory(parent.as_fd(), name) {
                opaque = whiteout::is(parent.as_fd(), name);
                rustix::fs::unlinkat(parent, name, AtFlags::empty())
                    .and_then(|()| make())
                    .map_err(fail)?;
            }
        }
        let fd = root::open_beneath(parent.as_fd(), name).map_err(fail)?;
        if opaque {
            whiteout::make_opaque(fd.as_fd()).map_err(fail)?;
        }
        self.dirs
            .insert(path.whole().to_vec(), attributes::times(entry));
        attributes::apply(fd.as_fd(), entry)
    }

    /// To a file of this layer, itself named beneath the root. What is in a
    /// lower layer cannot be linked to; builders copy it up first.
    fn hard_link(
        &mut self,
        entry: &Entry,
        path: &RootedPath,
        dir: &Rc<OwnedFd>,
    ) -> Result<(), UnpackError> {
        let missing = || UnpackError::LinkTarget {
            path: shown(&entry.path),
            target: shown(&entry.link),
        };
        let target = RootedPath::parse(&entry.link, self.limits.path)?.ok_or_else(missing)?;
        let from = self.root.existing(target.dir())?.ok_or_else(missing)?;
        let stat = rustix::fs::statat(&from, target.name(), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|_| missing())?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory || whiteout::is(from.as_fd(), target.name()) {
            return Err(missing());
        }
        // A link to itself would remove what it links to.
        if target == *path {
            return Ok(());
        }
        self.replace(path, dir, || {
            rustix::fs::linkat(&from, target.name(), dir, path.name(), AtFlags::empty())
        })
    }

    fn node(
        &mut self,
        path: &RootedPath,
        dir: &Rc<OwnedFd>,
        kind: FileType,
        entry: &Entry,
    ) -> Result<(), UnpackError> {
        let (major, minor) = entry.device;
        let device = rustix::fs::makedev(major, minor);
        self.replace(path, dir, || {
            rustix::fs::mknodat(dir, path.name(), kind, Mode::from(0o600), device)
        })
    }

    /// Makes something new; what has the name already goes first. The later
    /// entry of two wins, as with every other extractor.
    fn replace<T>(
        &mut self,
        path: &RootedPath,
        dir: &Rc<OwnedFd>,
        make: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, UnpackError> {
        let made = match make() {
            Err(Errno::EXIST) => {
                root::remove(dir.as_fd(), path.name())
                    .map_err(|error| UnpackError::io("replace", path.whole(), error))?;
                self.root.forget();
                make()
            }
            other => other,
        };
        made.map_err(|errno| UnpackError::io("make", path.whole(), errno))
    }
}

fn is_directory(parent: BorrowedFd<'_>, name: &[u8]) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// The data of a file, from the feed's buffer straight to the kernel.
fn write(
    fd: &OwnedFd,
    entry: &Entry,
    tar: &mut TarReader<&mut HashedInput<'_>>,
) -> Result<(), UnpackError> {
    let fail = |errno: Errno| UnpackError::io("write", &entry.path, errno);
    let Some(spans) = &entry.sparse else {
        return copy(fd, entry, tar, entry.stored);
    };
    rustix::fs::ftruncate(fd, entry.size).map_err(fail)?;
    for span in spans {
        rustix::fs::seek(fd, rustix::fs::SeekFrom::Start(span.at)).map_err(fail)?;
        copy(fd, entry, tar, span.length)?;
    }
    Ok(())
}

fn copy(
    fd: &OwnedFd,
    entry: &Entry,
    tar: &mut TarReader<&mut HashedInput<'_>>,
    mut left: u64,
) -> Result<(), UnpackError> {
    while left > 0 {
        let bytes = tar.data()?;
        let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        match rustix::io::write(fd, &bytes[..length]) {
            Ok(written) => {
                left -= written as u64;
                tar.consume(written);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(UnpackError::io("write", &entry.path, errno)),
        }
    }
    Ok(())
}
