//! A limited root as a file system in a file. The file is sparse: it takes
//! what the pod writes, and gives back what the pod deletes.
//!
//! Formatting starts a program and takes milliseconds, so it happens once per
//! size: the result is kept as a template, of which a root gets a copy of the
//! few hundred kilobytes that are not holes.
//!
//! A file may be mounted once only. Whoever attaches it to a loop device locks
//! it first, and the device keeps the lock for as long as it has the file,
//! through the death of the process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{
    FlockOperation, SeekFrom, copy_file_range, flock, ftruncate, ioctl_ficlone, seek,
};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::{loop_device, mkfs};
use crate::RootError;
use crate::context::FsContext;

/// The least that a limit may be: journal and folders must fit beside it.
pub(crate) const LEAST: u64 = 1 << 20;
/// How many sizes are kept ready.
const MOST_TEMPLATES: usize = 16;
/// The mounts of a pod that just ended go away a moment after it.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(2);

/// Whether this machine can do it; the reason why not is for people.
pub(super) fn possible() -> Result<(), String> {
    loop_device::possible()?;
    mkfs::find().map(drop).ok_or_else(|| {
        "mkfs.ext4 is not there; install e2fsprogs, or mount the file system with prjquota".into()
    })
}

/// Formatted file systems, one per size.
pub(crate) struct Templates {
    folder: PathBuf,
    /// Formatting the same size twice at once would be wasted.
    making: Mutex<()>,
}

impl Templates {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
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
        let path = self.folder.join(format!("{size}.ext4"));
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
        let content = self.folder.join("content");
        let new = self.folder.join("new");
        for (folder, mode) in [("upper", 0o755), ("work", 0o700)] {
            let folder = content.join(folder);
            let made = fs::DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(&folder);
            made.and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)))
                .map_err(RootError::at("make", &folder))?;
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
        let failed = || RootError::at::<io::Error>("look through", &self.folder);
        let mut templates = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "ext4")
            {
                templates.push(path);
            }
        }
        for old in templates.iter().skip(MOST_TEMPLATES - 1) {
            fs::remove_file(old).map_err(RootError::at("remove", old))?;
        }
        Ok(())
    }
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
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(image)
        .map_err(RootError::at("open", image))?;
    lock(id, image, &file)?;
    let device = loop_device::attach(&file)?;
    let context = FsContext::open("ext4")?;
    context
        .string("source", &device.path)?
        .flag("discard")?
        .flag("noinit_itable")?;
    context.mount(MountAttrFlags::empty())
}

fn lock(id: &str, image: &Path, file: &File) -> Result<(), RootError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(RootError::Busy { id: id.into() }),
            Err(errno) => return Err(RootError::io("lock", image, errno)),
        }
    }
}
