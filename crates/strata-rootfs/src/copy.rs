//! Copies what an image has in a directory into a new volume: files, directories and
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
const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Copies the directory at `path` of a root, links in which lead nowhere else,
/// into a directory. Returns whether the root has such a directory: where it has
/// none, nothing is copied.
pub fn copy_dir(root: impl AsFd, path: &Path, to: impl AsFd) -> Result<bool, RootError> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let from = match openat2(root, inside, flags, Mode::empty(), within) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
        other => other.map_err(RootError::at("open", path))?,
    };
    let copy = || {
        let to = openat(&to, ".", DIR, Mode::empty())?;
        dir(&from, &to, 0)?;
        let status = statat(&from, "", AtFlags::EMPTY_PATH)?;
        take_over(&to, c".", &status)?;
        Ok(true)
    };
    copy().map_err(|error: std::io::Error| RootError::io("copy", path, error))
}

fn dir(from: &OwnedFd, to: &OwnedFd, depth: usize) -> std::io::Result<()> {
    if depth > DEEPEST {
        return Err(Errno::NAMETOOLONG.into());
    }
    // Not on the stack: an image decides how many of these there are at once.
    let mut buffer: Vec<MaybeUninit<u8>> = vec![MaybeUninit::uninit(); BUFFER];
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
                let below = openat(from, name, DIR, Mode::empty())?;
                dir(&below, &openat(to, name, DIR, Mode::empty())?, depth + 1)?;
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
fn take_over(dir: &OwnedFd, name: &CStr, status: &Stat) -> std::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
    let no_follow = AtFlags::SYMLINK_NOFOLLOW;
    chownat(dir, name, Some(uid), Some(gid), no_follow)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
        let mode = Mode::from_raw_mode(status.st_mode & 0o7777);
        chmodat(dir, name, mode, AtFlags::empty())?;
    }
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.try_into().unwrap_or(0),
    };
    let times = Timestamps {
        last_access: time(status.st_atime, status.st_atime_nsec),
        last_modification: time(status.st_mtime, status.st_mtime_nsec),
    };
    Ok(utimensat(dir, name, &times, no_follow)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Threads of the daemon have 2 MiB, and a stack that overflows ends it.
    #[test]
    fn image_that_is_as_deep_as_may_be_fits_on_a_small_stack() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        let mut deepest = from.join("data");
        (0..DEEPEST).for_each(|_| deepest.push("d"));
        fs::create_dir_all(&deepest).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(deepest.join("file"), "x").unwrap();
        let open = |path: &Path| openat(rustix::fs::CWD, path, DIR, Mode::empty()).unwrap();
        let (root, target) = (open(&from), open(&to));
        let copy = move || copy_dir(root, Path::new("/data"), target);
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        thread.spawn(copy).unwrap().join().unwrap().unwrap();
        let copied = to.join(deepest.strip_prefix(from.join("data")).unwrap());
        assert_eq!(fs::read(copied.join("file")).unwrap(), b"x");

        // One deeper is refused.
        fs::create_dir_all(deepest.join("d/d")).unwrap();
        let again = scratch.path().join("again");
        fs::create_dir(&again).unwrap();
        assert!(copy_dir(open(&from), Path::new("/data"), open(&again)).is_err());
    }
}
