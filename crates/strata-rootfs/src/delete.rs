//! Taking away a tree that a pod filled, whatever it left: links are removed
//! and never followed, locked files are unlocked, and a tree deeper than we
//! can hold open is folded up: what lies too deep is moved to the top.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, IFlags, Mode, OFlags, RawDir, SeekFrom, fstat, ioctl_getflags,
    ioctl_setflags, openat, renameat, seek, unlinkat,
};
use rustix::io::Errno;

type Result<T> = std::result::Result<T, Errno>;

/// How many directories are held open at once.
const DEEPEST: usize = 40;
/// How often a directory is read again that filled up while it was emptied.
const PASSES: usize = 16;
const BUFFER: usize = 32 * 1024;

/// Removes what this name in this directory stands for; nothing there is no error.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    // Most of what is removed never held anything.
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR) => return remove_file(parent, name),
        Err(_) => {}
    }
    unlock_entry(parent, name)?;
    empty_directory(&open_dir(parent, name)?)?;
    remove_dir(parent, name)
}

/// Removes all that is in a directory.
pub(crate) fn empty_directory(top: &OwnedFd) -> Result<()> {
    let mut removal = Removal { top, moved: 0 };
    // One pass takes everything that is near; the next what it moved up.
    loop {
        let before = removal.moved;
        removal.empty(top, 0)?;
        if removal.moved == before {
            return Ok(());
        }
    }
}

struct Removal<'a> {
    top: &'a OwnedFd,
    /// How many directories were moved to the top so far.
    moved: u64,
}

impl Removal<'_> {
    fn empty(&mut self, dir: &OwnedFd, depth: usize) -> Result<()> {
        // It may have been read before.
        seek(dir, SeekFrom::Start(0))?;
        let mut buffer: Vec<MaybeUninit<u8>> = vec![MaybeUninit::uninit(); BUFFER];
        let mut entries = RawDir::new(dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match entry.file_type() {
                FileType::Directory => self.dir(dir, name, depth)?,
                FileType::Unknown => match remove_file(dir.as_fd(), name) {
                    Err(Errno::ISDIR) => self.dir(dir, name, depth)?,
                    other => other?,
                },
                _ => remove_file(dir.as_fd(), name)?,
            }
        }
        Ok(())
    }

    fn dir(&mut self, parent: &OwnedFd, name: &CStr, depth: usize) -> Result<()> {
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::PERM) => {
                unlock(parent.as_fd())?;
                unlock_entry(parent.as_fd(), name)?;
            }
            Err(_) => {}
        }
        if depth >= DEEPEST {
            return self.move_up(parent, name);
        }
        let dir = open_dir(parent.as_fd(), name)?;
        for _ in 0..PASSES {
            self.empty(&dir, depth + 1)?;
            match remove_dir(parent.as_fd(), name) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                other => return other,
            }
        }
        Err(Errno::NOTEMPTY)
    }

    fn move_up(&mut self, parent: &OwnedFd, name: &CStr) -> Result<()> {
        loop {
            self.moved += 1;
            // A name no shorter would do: the pod may have taken any.
            let higher =
                CString::new(format!(".moved.{}", self.moved)).map_err(|_| Errno::INVAL)?;
            match renameat(parent, name, self.top, &higher) {
                Err(Errno::PERM) => {
                    unlock(parent.as_fd())?;
                    unlock(self.top.as_fd())?;
                    unlock_entry(parent.as_fd(), name)?;
                    return renameat(parent, name, self.top, &higher);
                }
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                other => return other,
            }
        }
    }
}

fn open_dir(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

fn remove_dir(parent: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    remove(parent, name, AtFlags::REMOVEDIR)
}

fn remove_file(parent: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    remove(parent, name, AtFlags::empty())
}

fn remove(parent: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<()> {
    match unlinkat(parent, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::PERM) => {
            unlock(parent)?;
            unlock_entry(parent, name)?;
            unlinkat(parent, name, flags)
        }
        other => other,
    }
}

/// Takes "immutable" and "append only" off a file or directory. Everything else
/// cannot carry them, and is not opened: opening a device does things.
fn unlock_entry(parent: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let kind = FileType::from_raw_mode(fstat(&held)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Ok(());
    }
    let again = format!("/proc/self/fd/{}", held.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    unlock(rustix::fs::open(again, flags, Mode::empty())?.as_fd())
}

fn unlock(file: BorrowedFd<'_>) -> Result<()> {
    let locks = IFlags::IMMUTABLE | IFlags::APPEND;
    match ioctl_getflags(file) {
        Ok(flags) if flags.intersects(locks) => ioctl_setflags(file, flags - locks),
        // No flags on this file system, so no locks either.
        Ok(_) | Err(Errno::NOTTY | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno),
    }
}
