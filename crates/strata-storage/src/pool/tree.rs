//! The directories of the pool. Volumes hold what untrusted parties wrote, so
//! nothing here follows a link: every path is walked from the directory above
//! it by the kernel, which refuses to.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    Dir, Mode, OFlags, RenameFlags, ResolveFlags, fchmod, mkdirat, openat2, renameat_with,
};
use rustix::io::Errno;
use strata_types::Label;

pub(super) use super::clear::clear;
use super::{Shared, snapshots, volumes};
use crate::btrfs::Fs;
use crate::{Result, StorageError};

pub(super) const VOLUMES: &str = "volumes";
pub(super) const SNAPSHOTS: &str = "snapshots";
pub(super) const FROZEN: &str = "frozen";
pub(super) const STAGING: &str = "staging";
pub(super) const MAKING: &str = "making";
const POOL_ID: &str = "pool-id";

/// Opens something under a directory without following any link.
pub(super) fn open(
    dir: impl AsFd,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(dir, path, flags | OFlags::CLOEXEC, mode, resolve)
}

pub(super) fn open_dir(dir: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    open(dir, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// Makes a directory; one that is there is no error.
pub(super) fn make_dir(dir: impl AsFd, name: &str, mode: u32) -> Result<OwnedFd, Errno> {
    match mkdirat(&dir, name, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::EXIST) => open_dir(dir, name),
        Err(errno) => Err(errno),
    }
}

/// Puts something in its place, which must be free.
pub(super) fn rename(from: impl AsFd, old: &str, to: impl AsFd, new: &str) -> Result<(), Errno> {
    renameat_with(from, old, to, new, RenameFlags::NOREPLACE)
}

/// Names in a directory that could be ours.
pub(super) fn names(dir: impl AsFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Ok(name) = name.to_str()
            && name != "."
            && name != ".."
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Names in a directory that are labels; nothing else is one of our things.
pub(super) fn labels(dir: impl AsFd) -> Result<Vec<Label>, Errno> {
    let names = names(dir)?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// The directories of a new pool.
pub(super) fn make(fs: &Fs, id: &str) -> Result<()> {
    let failed = || StorageError::at::<Errno>("make", "the directories of the pool");
    // Volumes may hold programs that run as their owner.
    fchmod(&fs.root, Mode::RWXU).map_err(failed())?;
    for name in [VOLUMES, SNAPSHOTS, FROZEN, STAGING, MAKING] {
        make_dir(&fs.root, name, 0o700).map_err(failed())?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let file = open(&fs.root, POOL_ID, flags, Mode::from_raw_mode(0o444)).map_err(failed())?;
    rustix::io::write(&file, id.as_bytes()).map_err(failed())?;
    Ok(())
}

/// Clears away what a death left half-made, and limits volumes according to
/// their records.
pub(super) fn prepare(pool: &Shared, fs: &Fs) -> Result<()> {
    let failed = || StorageError::at::<Errno>("clear up", &pool.mount);
    let making = open_dir(&fs.root, MAKING).map_err(failed())?;
    for name in names(&making).map_err(failed())? {
        if let Err(errno) = clear(making.as_fd(), &name) {
            tracing::warn!(name, %errno, "incomplete volume not removed");
        }
    }
    if let Err(errno) = fs.enable_quota() {
        tracing::warn!(%errno, "quota accounting not started");
    }
    snapshots::remove_orphans(pool, fs)?;
    volumes::limit_all(pool, fs)
}
