//! What happens when a store is opened: directories are made, the lock is taken,
//! and what a death or a loss of power left half done goes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::StoreError;
use super::paths::Paths;
use super::unsynced;

/// Makes the directories and takes the lock. Layers hold set-id programs and
/// devices, so only root may look into any of it.
pub(super) fn prepare(paths: &Paths) -> Result<File, StoreError> {
    for dir in [
        paths.root().to_owned(),
        paths.blobs(),
        paths.layers(),
        paths.images(),
        paths.partials(),
        paths.tmp(),
        paths.unsynced(),
    ] {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(StoreError::io("make the directory", &dir))?;
    }
    // Each layer is made in here, apart from the others.
    strata_rootfs::spread(&paths.tmp());
    let path = paths.lock();
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(StoreError::io("open", &path))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => Err(StoreError::Locked(paths.root().to_owned())),
        Err(errno) => Err(StoreError::io("lock", &path)(errno.into())),
    }
}

pub(super) fn clean(paths: &Paths, boot: &str, keep_partial: Duration) -> Result<(), StoreError> {
    let list = |dir: PathBuf| fs::read_dir(&dir).map_err(StoreError::io("read", &dir));
    for entry in list(paths.tmp())?.flatten() {
        let path = entry.path();
        unsynced::remove(&path).map_err(StoreError::io("remove", &path))?;
    }
    let now = SystemTime::now();
    for entry in list(paths.partials())?.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|then| now.duration_since(then).ok());
        if age.is_none_or(|age| age >= keep_partial) {
            let path = entry.path();
            unsynced::remove(&path).map_err(StoreError::io("remove", &path))?;
        }
    }
    unsynced::distrust(paths, boot).map_err(StoreError::io("clean", paths.root()))
}
