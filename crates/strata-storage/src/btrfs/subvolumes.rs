//! Subvolumes: made, taken as they are at one moment, limited, taken away.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::Fs;
use crate::sys::{self, Bytes};

const READ_ONLY: u64 = 1 << 1;
const FLAGS: usize = 16;
const NAME: usize = 56;
const NAME_ROOM: usize = 4040;

/// What the file system knows of a subvolume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubvolumeInfo {
    pub(crate) id: u64,
    /// In Unix milliseconds.
    pub(crate) created_at_ms: i64,
    /// The commit that made it: two with the same are of one moment.
    pub(crate) made_in: u64,
}

/// Of the subvolume that this file or directory is in.
pub(crate) fn info(file: impl AsFd) -> Result<SubvolumeInfo, Errno> {
    let mut answer = Bytes::new();
    sys::ioctl(file, &sys::SUBVOL_INFO, &mut answer)?;
    let seconds = answer.get(392);
    let nanoseconds = u32::from_ne_bytes(answer.array(400));
    let millis = seconds.saturating_mul(1000) + u64::from(nanoseconds / 1_000_000);
    Ok(SubvolumeInfo {
        id: answer.get(0),
        created_at_ms: i64::try_from(millis).unwrap_or(i64::MAX),
        made_in: answer.get(352),
    })
}

/// Makes an empty subvolume.
pub(crate) fn create(dir: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let mut argument = Bytes::new().with_text(NAME, NAME_ROOM, name.as_bytes())?;
    sys::ioctl(dir, &sys::SUBVOL_CREATE_V2, &mut argument).map(drop)
}

/// Takes `source` as it is at one moment.
pub(crate) fn snapshot(
    source: BorrowedFd<'_>,
    dir: BorrowedFd<'_>,
    name: &str,
    read_only: bool,
) -> Result<(), Errno> {
    let source = u64::try_from(source.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let mut argument = Bytes::new()
        .with(0, source)
        .with(FLAGS, if read_only { READ_ONLY } else { 0 })
        .with_text(NAME, NAME_ROOM, name.as_bytes())?;
    sys::ioctl(dir, &sys::SNAP_CREATE_V2, &mut argument).map(drop)
}

/// Takes a subvolume away with everything in it but other subvolumes.
pub(crate) fn destroy(dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let mut argument = Bytes::new().with_text(NAME, NAME_ROOM, name)?;
    sys::ioctl(dir, &sys::SNAP_DESTROY_V2, &mut argument).map(drop)
}

/// No process writes to it from now on.
pub(crate) fn make_read_only(subvolume: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut argument = Bytes::new().with(0, READ_ONLY);
    sys::ioctl(subvolume, &sys::SUBVOL_SETFLAGS, &mut argument).map(drop)
}

/// All with the permission can write to it again.
pub(crate) fn make_writable(subvolume: BorrowedFd<'_>) -> Result<(), Errno> {
    sys::ioctl(subvolume, &sys::SUBVOL_SETFLAGS, &mut Bytes::new()).map(drop)
}

/// Limits what a subvolume refers to, or takes the limit off.
pub(crate) fn set_limit(subvolume: BorrowedFd<'_>, bytes: Option<u64>) -> Result<(), Errno> {
    const MAX_REFERENCED: u64 = 1;
    // All ones take a limit off. Group 0: the one of this subvolume.
    let mut argument = Bytes::new()
        .with(8, MAX_REFERENCED)
        .with(16, bytes.unwrap_or(u64::MAX));
    sys::ioctl(subvolume, &sys::QGROUP_LIMIT, &mut argument).map(drop)
}

impl Fs {
    /// What a subvolume refers to, and what of that nothing else does, as of
    /// the last commit.
    pub(crate) fn usage(&self, id: u64) -> Result<(u64, u64), Errno> {
        let dir = self.quota_dir()?.join(format!("0_{id}"));
        let read = |name: &str| {
            let text = std::fs::read_to_string(dir.join(name)).map_err(|_| Errno::NOENT)?;
            text.trim().parse::<u64>().map_err(|_| Errno::INVAL)
        };
        Ok((read("referenced")?, read("exclusive")?))
    }

    /// Whether the kernel reports that its accounting is inconsistent.
    pub(crate) fn lost_count(&self) -> Result<bool, Errno> {
        let flag = std::fs::read(self.quota_dir()?.join("inconsistent"));
        Ok(flag.is_ok_and(|text| text.starts_with(b"1")))
    }

    fn quota_dir(&self) -> Result<std::path::PathBuf, Errno> {
        let id = super::id_text(self.info()?.id);
        Ok(format!("/sys/fs/btrfs/{id}/qgroups").into())
    }
}
