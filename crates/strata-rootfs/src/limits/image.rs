//! A limited root or volume as a file system in a file. The file is sparse: it takes
//! what the pod writes, and gives back what the pod deletes.
//!
//! Formatting starts a program and takes milliseconds, so it happens once per
//! size: the result is kept as a template, of which a root gets a copy of the
//! few hundred kilobytes that are not holes.
//!
//! A file may be attached once only. A process that attaches it to a loop
//! device locks it first, and the device keeps the lock for as long as it has
//! the file, through the death of the process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{
    FlockOperation, Mode, OFlags, SeekFrom, copy_file_range, flock, ftruncate, ioctl_ficlone,
    openat, seek,
};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::{loop_device, mkfs};
use crate::RootError;
use crate::context::FsContext;

/// The least that a limit may be: journal and directories must fit beside it.
pub(crate) const MIN_LIMIT: u64 = 1 << 20;
/// How many sizes are kept ready.
const MAX_TEMPLATES: usize = 16;
/// The mounts of a pod that just ended go away a moment after it.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Whether this machine can do it; the reason why not is for people.
pub(super) fn possible() -> Result<(), String> {
    loop_device::possible()?;
    mkfs::find().map(drop).ok_or_else(|| {
        "mkfs.ext4 is not there; install e2fsprogs, or mount the file system with prjquota".into()
    })
}

/// Formatted file systems, one per size.
pub(crate) struct Templates {
    dir: PathBuf,
    /// What is in a new one: directories, by name and mode.
    content: &'static [(&'static str, u32)],
    /// Formatting the same size twice at once would be wasted.
    making: Mutex<()>,
}

impl Templates {
    pub(crate) fn new(dir: PathBuf, content: &'static [(&'static str, u32)]) -> Self {
        Self {
            dir,
            content,
            making: Mutex::new(()),
        }
    }

    /// Makes a file with a file system that holds so many bytes.
    pub(crate) fn copy_to(&self, image: &Path, bytes: u64) -> Result<(), RootError> {
        let template = self.get(mkfs::image_size(bytes))?;
        let copy = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(image)
            .map_err(RootError::at("make", image))?;
        copy_sparse(&template, &copy).map_err(RootError::at("write", image))
    }

    fn get(&self, size: u64) -> Result<File, RootError> {
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.dir.join(format!("{size}.ext4"));
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.make(&path, size)?,
            other => return other.map_err(RootError::at("open", &path)),
        }
        File::open(&path).map_err(RootError::at("open", &path))
    }

    /// Comes into its place by a rename. A file that a death left is removed
    /// first and not used again: its mkfs may have outlived us.
    fn make(&self, path: &Path, size: u64) -> Result<(), RootError> {
        self.make_room()?;
        let content = self.dir.join("content");
        let new = self.dir.join("new");
        make_dir(&content, 0o755)?;
        for (name, mode) in self.content {
            make_dir(&content.join(name), *mode)?;
        }
        match fs::remove_file(&new) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(RootError::at("remove", &new))?,
        }
        let made = File::create_new(&new)
            .and_then(|file| file.set_len(size))
            .map_err(RootError::at("make", &new))
            .and_then(|()| mkfs::format(&new, &content))
            .and_then(|()| fs::rename(&new, path).map_err(RootError::at("make", path)));
        if made.is_err() {
            // Part of nothing; the error is the one that counts.
            let _ = fs::remove_file(&new);
        }
        made
    }

    fn make_room(&self) -> Result<(), RootError> {
        let failed = || RootError::at::<io::Error>("look through", &self.dir);
        let mut templates = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "ext4")
            {
                templates.push(path);
            }
        }
        for old in templates.iter().skip(MAX_TEMPLATES - 1) {
            fs::remove_file(old).map_err(RootError::at("remove", old))?;
        }
        Ok(())
    }
}

/// The umask of the process may have taken bits away.
fn make_dir(path: &Path, mode: u32) -> Result<(), RootError> {
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(mode).create(path);
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(RootError::at("make", path))
}

/// Copies what is not a hole; shares it where the file system can.
fn copy_sparse(from: &File, to: &File) -> Result<(), Errno> {
    let size = from.metadata().map_err(|_| Errno::IO)?.len();
    if ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    ftruncate(to, size)?;
    let mut at = 0;
    loop {
        let start = match seek(from, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(()),
            other => other?,
        };
        let end = seek(from, SeekFrom::Hole(start))?;
        let (mut read, mut write) = (start, start);
        while read < end {
            let length = usize::try_from(end - read).unwrap_or(usize::MAX);
            if copy_file_range(from, Some(&mut read), to, Some(&mut write), length)? == 0 {
                return Err(Errno::IO);
            }
        }
        at = end;
    }
}

/// Mounts the file system in this file, detached. Its loop device goes when
/// the last mount of it goes.
pub(crate) fn mount(id: &str, image: &Path) -> Result<OwnedFd, RootError> {
    let file = open(image)?;
    let until = Instant::now() + UNMOUNT_TIMEOUT;
    while !lock(image, &file)? {
        wait(id, until)?;
    }
    mount_alone(&file)
}

/// Mounts a file that is not mounted elsewhere.
fn mount_alone(file: &File) -> Result<OwnedFd, RootError> {
    let was_mounted = was_mounted(file);
    let mount = mount_device(&loop_device::attach(file)?)?;
    if was_mounted {
        trim(&mount);
    }
    Ok(mount)
}

/// Whether it was ever mounted before: ext4 counts that in its superblock.
fn was_mounted(file: &File) -> bool {
    const MOUNT_COUNT: u64 = 1024 + 52;
    let mut count = [0; 2];
    file.read_exact_at(&mut count, MOUNT_COUNT).is_ok() && count != [0; 2]
}

/// Releases free blocks to the disk. `discard` does so while the file system is
/// mounted, but what was freed right before it was unmounted stays taken: the
/// kernel drops those requests. Done before the mount is used: a trim holds
/// the free blocks of a group while it is at it, and a write at that time fails with
/// `ENOSPC`.
fn trim(mount: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let trimmed = openat(mount, ".", flags, Mode::empty()).and_then(crate::sys::trim);
    if let Err(error) = trimmed {
        tracing::debug!(%error, "root file system not trimmed");
    }
}

/// The same for one that others may have mounted: it is the same file system
/// for all, on the loop device that the first of them attached.
pub(crate) fn mount_shared(id: &str, image: &Path) -> Result<OwnedFd, RootError> {
    let file = open(image)?;
    let until = Instant::now() + UNMOUNT_TIMEOUT;
    loop {
        if lock(image, &file)? {
            return mount_alone(&file);
        }
        // It may be on its way to a device, or off one.
        if let Some(device) = loop_device::of(&file)? {
            return mount_device(&device);
        }
        wait(id, until)?;
    }
}

fn open(image: &Path) -> Result<File, RootError> {
    let file = OpenOptions::new().read(true).write(true).open(image);
    file.map_err(RootError::at("open", image))
}

fn mount_device(device: &loop_device::LoopDevice) -> Result<OwnedFd, RootError> {
    let context = FsContext::open("ext4")?;
    context
        .string("source", &device.path)?
        .flag("discard")?
        .flag("noinit_itable")?;
    context.mount(MountAttrFlags::empty())
}

/// Whether the file is ours now, to be attached.
fn lock(image: &Path, file: &File) -> Result<bool, RootError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(RootError::io("lock", image, errno)),
    }
}

fn wait(id: &str, until: Instant) -> Result<(), RootError> {
    if Instant::now() >= until {
        return Err(RootError::Busy { id: id.into() });
    }
    std::thread::sleep(POLL_INTERVAL);
    Ok(())
}
