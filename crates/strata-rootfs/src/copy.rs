//! Copies what an image has in a folder into a new volume: files, folders and
//! links with their owners, modes and times. Devices, pipes and sockets stay
//! behind, and a file with two names becomes two.

use std::ffi::CStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawDir, ResolveFlags, Stat, Timespec, Timestamps, Uid,
    chmodat, chownat, mkdirat, openat, openat2, readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;

use crate::RootError;

const DEEPEST: usize = 128;
const BUFFER: usize = 16 * 1024;
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Copies the folder at `path` of a root, links in which lead nowhere else,
/// into a folder. Where there is no such folder, nothing is copied.
pub fn copy_folder(root: impl AsFd, path: &Path, to: impl AsFd) -> Result<(), RootError> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let from = match openat2(root, inside, flags, Mode::empty(), within) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        other => other.map_err(RootError::at("open", path))?,
    };
    let copy = || {
        let to = openat(&to, ".", FOLDER, Mode::empty())?;
        folder(&from, &to, 0)?;
        let status = statat(&from, "", AtFlags::EMPTY_PATH)?;
        take_over(&to, c".", &status)
    };
    copy().map_err(|error: std::io::Error| RootError::io("copy", path, error))
}

fn folder(from: &OwnedFd, to: &OwnedFd, depth: usize) -> std::io::Result<()> {
    if depth > DEEPEST {
        return Err(Errno::NAMETOOLONG.into());
    }
    let mut buffer = [MaybeUninit::<u8>::uninit(); BUFFER];
    let mut entries = RawDir::new(from, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let status = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => {
                mkdirat(to, name, Mode::RWXU)?;
                let below = openat(from, name, FOLDER, Mode::empty())?;
                folder(&below, &openat(to, name, FOLDER, Mode::empty())?, depth + 1)?;
            }
            FileType::RegularFile => file(from, to, name)?,
            FileType::Symlink => symlinkat(&*readlinkat(from, name, Vec::new())?, to, name)?,
            _ => continue,
        }
        take_over(to, name, &status)?;
    }
    Ok(())
}

fn file(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> std::io::Result<()> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut source = File::from(openat(from, name, read, Mode::empty())?);
    let mut copy = File::from(openat(to, name, write, Mode::RUSR | Mode::WUSR)?);
    std::io::copy(&mut source, &mut copy).map(drop)
}

/// Its owner first: a change of that takes bits off the mode.
fn take_over(folder: &OwnedFd, name: &CStr, status: &Stat) -> std::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
    let no_follow = AtFlags::SYMLINK_NOFOLLOW;
    chownat(folder, name, Some(uid), Some(gid), no_follow)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
        let mode = Mode::from_raw_mode(status.st_mode & 0o7777);
        chmodat(folder, name, mode, AtFlags::empty())?;
    }
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.try_into().unwrap_or(0),
    };
    let times = Timestamps {
        last_access: time(status.st_atime, status.st_atime_nsec),
        last_modification: time(status.st_mtime, status.st_mtime_nsec),
    };
    Ok(utimensat(folder, name, &times, no_follow)?)
}
