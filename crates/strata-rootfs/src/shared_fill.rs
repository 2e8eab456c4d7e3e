//! Fills a volume of a storage pool with what an image has in its place, once.
//! Pods of several nodes may begin with the same volume at the same time, and
//! one of them may have it already, so nothing in it is ever replaced or
//! removed.
//!
//! ```text
//! <volume>/data          what pods see
//! <volume>/.fill.new     what the image has, being copied
//! <volume>/.fill         all of it, on the disk; moved into data entry by entry
//! <volume>/.filled       it was filled: never again
//! ```
//!
//! The directory around `data` is locked meanwhile, which no pod sees: a pod
//! that begins waits until the volume is whole, and completes what a node that
//! died in the middle has left.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, RawDir, RenameFlags, Uid, fchmod, fchown, flock,
    fstat, fsync, mkdirat, openat, renameat, renameat_with, statat, syncfs,
};
use rustix::io::Errno;

use crate::RootError;
use crate::delete::remove_tree;

const DATA: &CStr = c"data";
const COPYING: &CStr = c".fill.new";
const COPIED: &CStr = c".fill";
const FILLED: &CStr = c".filled";
const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// How long another node may take to fill it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// Fills a volume with `copy`, which gets an empty directory and reports whether
/// the image has anything for it. `volume` is the open directory around the
/// data; `path` is its name in errors. One that is not empty, or was filled
/// before, stays as it is.
pub fn fill_shared(
    volume: &OwnedFd,
    path: &Path,
    copy: impl FnOnce(&OwnedFd) -> Result<bool, RootError>,
) -> Result<(), RootError> {
    let failed = |what| RootError::at(what, path);
    if exists(volume, FILLED).map_err(failed("look at"))? {
        return Ok(());
    }
    // Released when it is closed: `volume` is the caller's own description.
    lock(volume).map_err(failed("lock"))?;
    let filled = fill(volume, path, copy);
    flock(volume, FlockOperation::Unlock).map_err(failed("unlock"))?;
    match filled {
        // Nothing in it can be changed, by pods neither.
        Err(RootError::Io { source, .. })
            if source.raw_os_error() == Some(Errno::ROFS.raw_os_error()) =>
        {
            Ok(())
        }
        other => other,
    }
}

fn fill(
    volume: &OwnedFd,
    path: &Path,
    copy: impl FnOnce(&OwnedFd) -> Result<bool, RootError>,
) -> Result<(), RootError> {
    let failed = |what| RootError::at(what, path);
    if exists(volume, FILLED).map_err(failed("look at"))? {
        return Ok(());
    }
    let data = openat(volume, DATA, DIR, Mode::empty()).map_err(failed("open"))?;
    if !exists(volume, COPIED).map_err(failed("look at"))? {
        if !is_empty(&data).map_err(failed("look through"))? {
            return Ok(());
        }
        let remove = || remove_tree(volume.as_fd(), COPYING).map_err(failed("empty"));
        remove()?;
        mkdirat(volume, COPYING, Mode::RWXU).map_err(failed("make a directory in"))?;
        let copying = openat(volume, COPYING, DIR, Mode::empty()).map_err(failed("open"))?;
        match copy(&copying) {
            Ok(true) => {}
            Ok(false) => return remove(),
            Err(error) => {
                // What was copied takes room that the pod may need.
                let _ = remove();
                return Err(error);
            }
        }
        let put = || {
            syncfs(&copying)?;
            renameat(volume, COPYING, volume, COPIED)?;
            fsync(volume)
        };
        put().map_err(failed("write out"))?;
    }
    take_in(volume, &data).map_err(failed("fill"))
}

/// Moves what was copied into the volume. What is there by that name stays.
fn take_in(volume: &OwnedFd, data: &OwnedFd) -> Result<(), Errno> {
    let copied = openat(volume, COPIED, DIR, Mode::empty())?;
    for name in entries(&copied)? {
        match renameat_with(&copied, &name, data, &name, RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    let status = fstat(&copied)?;
    let (uid, gid) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
    fchown(data, Some(uid), Some(gid))?;
    fchmod(data, Mode::from_raw_mode(status.st_mode & 0o7777))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(volume, FILLED, flags, Mode::RUSR | Mode::WUSR)?;
    syncfs(volume)?;
    remove_tree(volume.as_fd(), COPIED)
}

fn lock(volume: &OwnedFd) -> Result<(), Errno> {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(volume, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(LOCK_INTERVAL);
            }
            Err(Errno::WOULDBLOCK) => return Err(Errno::TIMEDOUT),
            other => return other,
        }
    }
}

fn exists(volume: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match statat(volume, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn is_empty(dir: &OwnedFd) -> Result<bool, Errno> {
    entries(dir).map(|entries| entries.is_empty())
}

fn entries(dir: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut buffer: Vec<MaybeUninit<u8>> = vec![MaybeUninit::uninit(); 4096];
    let mut names = Vec::new();
    let again = openat(dir, c".", DIR, Mode::empty())?;
    let mut entries = RawDir::new(&again, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::fs::open;

    use super::*;

    fn volume() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        let open = open(dir.path(), DIR, Mode::empty()).unwrap();
        (dir, open)
    }

    /// Puts these files into the directory, as an image's copy would.
    fn copies<'a>(
        dir: &'a Path,
        names: &'a [&'a str],
    ) -> impl FnOnce(&OwnedFd) -> Result<bool, RootError> + 'a {
        move |to| {
            for name in names {
                fs::write(dir.join(".fill.new").join(name), name).unwrap();
            }
            fchmod(to, Mode::from_raw_mode(0o750)).unwrap();
            Ok(!names.is_empty())
        }
    }

    fn found(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir.join("data")).unwrap();
        let mut names: Vec<_> = names
            .map(|one| one.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn volume_is_filled_once_with_content_and_mode() {
        let (dir, open) = volume();
        let path = dir.path();
        fill_shared(&open, path, copies(path, &[])).unwrap();
        assert!(!path.join(".filled").exists(), "the image has nothing");
        fill_shared(&open, path, copies(path, &["a", "b"])).unwrap();
        assert_eq!(found(path), ["a", "b"]);
        let mode = fs::metadata(path.join("data")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o7777, 0o750);
        fs::remove_file(path.join("data/a")).unwrap();
        fs::remove_file(path.join("data/b")).unwrap();
        fill_shared(&open, path, copies(path, &["c"])).unwrap();
        assert!(found(path).is_empty(), "what pods removed stays so");
        assert!(!path.join(".fill").exists() && !path.join(".fill.new").exists());
    }

    #[test]
    fn volume_with_files_stays_as_it_is() {
        let (dir, open) = volume();
        let path = dir.path();
        fs::write(path.join("data/own"), "").unwrap();
        let before = fs::metadata(path.join("data")).unwrap().permissions();
        fill_shared(&open, path, |_| panic!("it is not copied into")).unwrap();
        assert_eq!(found(path), ["own"]);
        let after = fs::metadata(path.join("data")).unwrap().permissions();
        assert_eq!(before, after);
    }

    #[test]
    fn interrupted_fill_is_completed_and_replaces_nothing() {
        let (dir, open) = volume();
        let path = dir.path();
        // It died while it copied: nothing of that is taken.
        fs::create_dir(path.join(".fill.new")).unwrap();
        fs::write(path.join(".fill.new/half"), "half").unwrap();
        // And while it moved: `b` is there already, and a pod wrote `c`.
        fs::create_dir(path.join(".fill")).unwrap();
        for name in ["a", "c"] {
            fs::write(path.join(".fill").join(name), "of the image").unwrap();
        }
        fs::write(path.join("data/b"), "of the image").unwrap();
        fs::write(path.join("data/c"), "of a pod").unwrap();
        fill_shared(&open, path, |_| panic!("all of it was copied")).unwrap();
        assert_eq!(found(path), ["a", "b", "c"]);
        assert_eq!(fs::read(path.join("data/c")).unwrap(), b"of a pod");
        assert!(path.join(".filled").exists() && !path.join(".fill").exists());
        let (dir, open) = volume();
        let path = dir.path();
        fs::create_dir(path.join(".fill.new")).unwrap();
        fs::write(path.join(".fill.new/half"), "half").unwrap();
        fill_shared(&open, path, copies(path, &["whole"])).unwrap();
        assert_eq!(found(path), ["whole"]);
    }

    #[test]
    fn failed_copy_leaves_nothing_and_may_be_repeated() {
        let (dir, open) = volume();
        let path = dir.path();
        let full = |_: &OwnedFd| {
            fs::write(path.join(".fill.new/half"), "half").unwrap();
            Err(RootError::io("copy", path, Errno::NOSPC))
        };
        assert!(fill_shared(&open, path, full).is_err());
        assert!(found(path).is_empty() && !path.join(".fill.new").exists());
        fill_shared(&open, path, copies(path, &["a"])).unwrap();
        assert_eq!(found(path), ["a"]);
    }

    #[test]
    fn callers_at_once_wait_for_one_that_fills() {
        let (dir, _) = volume();
        let path = dir.path();
        let fills = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let open = open(path, DIR, Mode::empty()).unwrap();
                    let copy = |_: &OwnedFd| {
                        fills.fetch_add(1, Ordering::Relaxed);
                        for number in 0..100 {
                            let file = path.join(".fill.new").join(number.to_string());
                            fs::write(file, "x").unwrap();
                        }
                        Ok(true)
                    };
                    fill_shared(&open, path, copy).unwrap();
                    assert_eq!(found(path).len(), 100, "it is whole");
                });
            }
        });
        assert_eq!(fills.load(Ordering::Relaxed), 1);
    }
}
