//! Room that a mirrored pool keeps for itself. A pool that is full to the last
//! byte cannot use one more device: new data needs two with room, and to move
//! old data there must be a place for it first. So a file holds a little more
//! room than a chunk of data has, and releases it while data is moved.

use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::Errno;
use strata_types::storage::Profile;

use super::{Shared, tree};
use crate::btrfs::Fs;

const NAME: &str = "ballast";
/// Chunks of data have a tenth of all devices, and this at most.
const MAX_CHUNK: u64 = 1 << 30;

/// Takes the room, if there is enough; that there is not is no error.
pub(super) fn take(pool: &Shared, fs: &Fs) {
    if pool.record().profile != Profile::Mirrored {
        return;
    }
    if let Err(errno) = try_to_take(fs) {
        tracing::warn!(%errno, "pool reserve not allocated");
    }
}

fn try_to_take(fs: &Fs) -> Result<(), Errno> {
    let devices = fs.devices()?;
    let all: u64 = devices.iter().map(|device| device.bytes).sum();
    let bytes = (all / 9).min(MAX_CHUNK / 8 * 9);
    let room = rustix::fs::fstatvfs(&fs.root)?;
    let whole = devices.iter().all(|device| device.path.is_some());
    // Not the last room, and not while it may be needed to mend the pool.
    if !whole || room.f_bavail.saturating_mul(room.f_frsize) < bytes * 3 {
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let file = tree::open(&fs.root, NAME, flags, Mode::from_raw_mode(0o600))?;
    let held = fallocate(&file, FallocateFlags::empty(), 0, bytes);
    if held.is_err() {
        release(fs)?;
    }
    held
}

/// Releases the room: it can be written to when this returns.
pub(super) fn release(fs: &Fs) -> Result<(), Errno> {
    tree::clear(fs.root.as_fd(), NAME)?;
    fs.sync()
}
