//! The mount of the pool in the host's table. Unlike mounts of pods it stays
//! when the daemon dies: volumes are in use by cells that go on.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

use crate::attach::{self, Attached};
use crate::{Result, StorageError};

/// For a process that has a file open a moment longer.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How the pool is mounted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MountOptions {
    /// Also when devices are missing.
    pub(crate) degraded: bool,
    /// Files keep the room they took in advance.
    pub(crate) keep_room: bool,
}

/// Mounts the file system of these devices.
pub(crate) fn mount_devices(
    devices: &[Attached],
    point: &Path,
    options: MountOptions,
) -> Result<(), Errno> {
    let first = devices.first().ok_or(Errno::NODEV)?;
    let mut text = String::new();
    if options.degraded {
        text.push_str("degraded,");
    }
    text.push_str(if options.keep_room {
        "nodiscard"
    } else {
        "discard=async"
    });
    let mut data = text.into_bytes();
    // Nothing is looked for: these are the devices.
    for device in devices {
        data.extend_from_slice(b",device=");
        data.extend_from_slice(device.path.as_os_str().as_bytes());
    }
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NOATIME | MountFlags::NODEV;
    share_point(point)?;
    let mounted = mount(&first.path, point, "btrfs", flags, data.as_c_str());
    // What is mounted within the pool by the user of a part of it stays
    // mounted.
    let mounted = mounted.and_then(|()| mount_change(point, MountPropagationFlags::PRIVATE));
    if mounted.is_err() {
        while unmount(point, UnmountFlags::NOFOLLOW).is_ok() {}
    }
    mounted
}

/// Mounts the directory of the pool onto itself, for others to follow: whether
/// an unmount reaches the copies of the mount table that cells have, of this run
/// and of others, depends on the mount below, and the host's root is not a
/// shared one everywhere. Otherwise a cell would keep the devices of the pool
/// for as long as it lives.
fn share_point(point: &Path) -> Result<(), Errno> {
    mount_bind(point, point)?;
    mount_change(point, MountPropagationFlags::SHARED).inspect_err(|_| {
        let _ = unmount(point, UnmountFlags::NOFOLLOW);
    })
}

const TABLE: &str = "/proc/self/mountinfo";

/// Every mount at or under a directory, the innermost last.
fn mounts_under(dir: &Path) -> Result<Vec<PathBuf>> {
    let text = std::fs::read(TABLE).map_err(StorageError::at("read", TABLE))?;
    let points = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape);
    Ok(points.filter(|point| point.starts_with(dir)).collect())
}

/// Whether a whole file system is mounted there: the directory on itself, which
/// a death may leave, is none.
pub(crate) fn is_mounted(point: &Path) -> Result<bool> {
    let text = std::fs::read(TABLE).map_err(StorageError::at("read", TABLE))?;
    let mut lines = text.split(|byte| *byte == b'\n');
    Ok(lines.any(|line| {
        let mut fields = line.split(|byte| *byte == b' ').skip(3);
        fields.next() == Some(&b"/"[..]) && fields.next().is_some_and(|at| unescape(at) == point)
    }))
}

/// The kernel writes blanks and the like as `\040`.
fn unescape(text: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let code = text
            .get(at + 1..at + 4)
            .filter(|_| text[at] == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(code.unwrap_or(text[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&path))
}

/// Unmounts everything at or under a directory; `EBUSY` when a process uses it.
pub(crate) fn unmount_all(dir: &Path) -> Result<()> {
    let until = Instant::now() + UNMOUNT_TIMEOUT;
    loop {
        let Some(point) = mounts_under(dir)?.pop() else {
            return Ok(());
        };
        match unmount(&point, UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(Errno::INVAL) => {}
            Err(Errno::BUSY) if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
            Err(errno) => return Err(StorageError::at("unmount", &point)(errno)),
        }
    }
}

/// Takes a pool out of the machine: unmounts it and releases its loop devices.
/// Its data stays. Works without a daemon, on what a dead one left, and
/// repeated.
///
/// A process that still uses the pool keeps it for as long as it does; no new
/// process can reach it.
pub fn remove(dir: &Path) -> Result<()> {
    let dir = match dir.canonicalize() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(StorageError::at("find", dir))?,
    };
    if let Err(error) = unmount_all(&dir) {
        tracing::warn!(dir = %dir.display(), %error, "pool in use: unmounted lazily");
        while let Some(point) = mounts_under(&dir)?.pop() {
            unmount(&point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
                .map_err(StorageError::at("unmount", &point))?;
        }
    }
    attach::detach_all(&dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_paths_are_read() {
        assert_eq!(unescape(br"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescape(br"/a\04"), Path::new(r"/a\04"));
    }
}
