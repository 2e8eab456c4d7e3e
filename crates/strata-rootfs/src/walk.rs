//! How much a tree takes on the disk, for roots without a quota that knows.
//! Bounded in files, depth and time: what a pod made decides how long this
//! takes, and no caller should wait for a million files.

use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;

const MAX_FILES: usize = 200_000;
const DEEPEST: usize = 64;
const WALK_TIMEOUT: Duration = Duration::from_secs(2);
const BUFFER: usize = 16 * 1024;

/// Bytes found, and whether that was everything.
pub(crate) struct Walked {
    pub(crate) bytes: u64,
    pub(crate) whole: bool,
}

/// Adds up the tree with this name. What vanishes meanwhile does not count.
pub(crate) fn disk_usage(parent: BorrowedFd<'_>, name: &str) -> Result<Walked, Errno> {
    let mut walk = Walk {
        bytes: 0,
        files: 0,
        whole: true,
        linked: HashSet::new(),
        until: Instant::now() + WALK_TIMEOUT,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    walk.dir(&openat(parent, name, flags, Mode::empty())?, 0)?;
    Ok(Walked {
        bytes: walk.bytes,
        whole: walk.whole,
    })
}

struct Walk {
    bytes: u64,
    files: usize,
    whole: bool,
    /// Files with several names, which count once.
    linked: HashSet<u64>,
    until: Instant,
}

impl Walk {
    fn dir(&mut self, dir: &OwnedFd, depth: usize) -> Result<(), Errno> {
        // Not on the stack: a pod decides how many of these there are at once.
        let mut buffer: Vec<MaybeUninit<u8>> = vec![MaybeUninit::uninit(); BUFFER];
        let mut entries = RawDir::new(dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.files += 1;
            if self.files > MAX_FILES || depth > DEEPEST || Instant::now() > self.until {
                self.whole = false;
                return Ok(());
            }
            let status = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                other => other?,
            };
            let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
            if is_directory || status.st_nlink == 1 || self.linked.insert(status.st_ino) {
                self.bytes += u64::try_from(status.st_blocks).unwrap_or(0) * 512;
            }
            if is_directory {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match openat(dir, name, flags, Mode::empty()) {
                    Err(Errno::NOENT) => {}
                    other => self.dir(&other?, depth + 1)?,
                }
            }
        }
        Ok(())
    }
}
