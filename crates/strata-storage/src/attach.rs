//! Files as block devices, on loop devices that release their file by
//! themselves: when the file system has closed it, by an unmount or because the
//! device left, and no other process has it open. So nothing can be left over.
//!
//! A file is attached once only: a process that attaches it locks it first, and
//! the loop device keeps the open file with its lock for as long as it has it,
//! also through the death of the process.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, makedev, mknodat, open};
use rustix::io::Errno;

use crate::sys::{self, Bytes};
use crate::{Result, StorageError};

const CONTROL: &str = "/dev/loop-control";
/// Others take loop devices too, between our query and our attach.
const ATTEMPTS: usize = 64;
/// A device that was closed releases its file a moment later.
const DETACH_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A block device, there for as long as this is held or a file system uses it.
pub(crate) struct Attached {
    pub(crate) path: PathBuf,
    _device: OwnedFd,
}

/// A block device as it is.
pub(crate) fn block(path: &Path) -> Result<Attached> {
    let device = open_device(path).map_err(StorageError::at("open", path))?;
    Ok(Attached {
        path: path.to_owned(),
        _device: device,
    })
}

/// A file as a block device; the one that has it already, if one has.
pub(crate) fn file(path: &Path) -> Result<Attached> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(StorageError::at("open", path))?;
    let until = Instant::now() + DETACH_TIMEOUT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return attach(&file),
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(StorageError::at("lock", path)(errno)),
        }
        // It may be on its way to a device, or off one.
        if let Some(device) = find(&file)? {
            return Ok(device);
        }
        if Instant::now() >= until {
            return Err(StorageError::DeviceTaken {
                path: path.to_owned(),
                why: "is used by another process",
            });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until no loop device has this file.
pub(crate) fn wait_until_free(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(StorageError::at("open", path))?;
    let until = Instant::now() + DETACH_TIMEOUT;
    while find(&file)?.is_some() {
        if Instant::now() >= until {
            return Err(StorageError::DeviceTaken {
                path: path.to_owned(),
                why: "is still attached to a loop device",
            });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn attach(file: &File) -> Result<Attached> {
    let control = open_device(Path::new(CONTROL)).map_err(StorageError::at("open", CONTROL))?;
    for _ in 0..ATTEMPTS {
        let number = sys::ioctl(&control, &sys::LOOP_FREE, &mut Bytes::new())
            .map_err(StorageError::at("get a loop device from", CONTROL))?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open_loop(&path).map_err(StorageError::at("open", &path))?;
        // Around the page cache of the host: it would hold everything twice.
        let configured = configure(&device, file, true).or_else(|errno| match errno {
            Errno::INVAL => configure(&device, file, false),
            errno => Err(errno),
        });
        match configured {
            Ok(()) => {
                return Ok(Attached {
                    path,
                    _device: device,
                });
            }
            Err(Errno::BUSY) => {}
            Err(errno) => return Err(StorageError::at("set up", &path)(errno)),
        }
    }
    Err(StorageError::at("get a loop device from", CONTROL)(
        Errno::BUSY,
    ))
}

fn configure(device: &OwnedFd, file: &File, direct: bool) -> Result<(), Errno> {
    const BLOCK: u32 = 4096;
    const AUTOCLEAR: u32 = 4;
    const DIRECT: u32 = 16;
    let fd = u32::try_from(file.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let flags = if direct {
        AUTOCLEAR | DIRECT
    } else {
        AUTOCLEAR
    };
    let mut config = Bytes::new()
        .with_u32(0, fd)
        .with_u32(4, BLOCK)
        .with_u32(60, flags);
    sys::ioctl(device, &sys::LOOP_CONFIGURE, &mut config).map(drop)
}

/// The loop device that has this file.
fn find(file: &File) -> Result<Option<Attached>> {
    let wanted = file
        .metadata()
        .map_err(StorageError::at("look at", CONTROL))?;
    for path in in_use()? {
        // A device that is just releasing its file is not opened, or has none.
        let device = match open_loop(&path) {
            Ok(device) => device,
            Err(errno) if is_want(errno) => return Err(StorageError::at("open", &path)(errno)),
            Err(_) => continue,
        };
        if file_of(&device) == Ok((wanted.dev(), wanted.ino())) {
            let _device = device;
            return Ok(Some(Attached { path, _device }));
        }
    }
    Ok(None)
}

/// Device and number of the file that a loop device has.
fn file_of(device: &OwnedFd) -> Result<(u64, u64), Errno> {
    let mut answer = Bytes::new();
    sys::ioctl(device, &sys::LOOP_STATUS, &mut answer)?;
    Ok((answer.get(0), answer.get(8)))
}

/// The same by the path of the loop device; nothing when there is no such
/// device, or it has no file.
pub(crate) fn file_behind(device: &Path) -> Result<Option<(u64, u64)>> {
    match open_loop(device).and_then(|opened| file_of(&opened)) {
        Ok(file) => Ok(Some(file)),
        Err(errno) if is_want(errno) => Err(StorageError::at("look at", device)(errno)),
        Err(_) => Ok(None),
    }
}

/// Whether we lack the resources for the query: that implies nothing about the
/// device, and a device that is taken for gone can be lost by it.
pub(crate) fn is_want(errno: Errno) -> bool {
    [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::INTR,
        Errno::AGAIN,
    ]
    .contains(&errno)
}

/// All loop devices that have a file.
fn in_use() -> Result<Vec<PathBuf>> {
    const DEVICES: &str = "/sys/block";
    let failed = || StorageError::at::<std::io::Error>("look through", DEVICES);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(DEVICES).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        // The kernel shows this while the device has a file.
        if entry.path().join("loop").is_dir() {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(found)
}

/// Takes the files of a directory off their loop devices. What a mount that we
/// do not see still uses goes when that mount goes.
pub(crate) fn detach_all(dir: &Path) -> Result<()> {
    for path in in_use()? {
        // Opened first: a device that is open keeps the file that it has, and one
        // that was free before may have another file by now.
        let Ok(device) = open_loop(&path) else {
            continue;
        };
        let name = path.file_name().unwrap_or_default();
        let shown = Path::new("/sys/block").join(name).join("loop/backing_file");
        let Ok(text) = std::fs::read_to_string(shown) else {
            continue;
        };
        let file = text.trim_end_matches('\n').trim_end_matches(" (deleted)");
        if !Path::new(file).starts_with(dir) {
            continue;
        }
        match sys::ioctl(&device, &sys::LOOP_CLEAR, &mut Bytes::new()) {
            Ok(_) | Err(Errno::NXIO) => {}
            Err(errno) => return Err(StorageError::at("detach", &path)(errno)),
        }
    }
    Ok(())
}

/// Where no udev keeps `/dev` up to date, the node of a new device is not there
/// yet.
fn open_loop(path: &Path) -> Result<OwnedFd, Errno> {
    match open_device(path) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    let name = path.file_name().ok_or(Errno::NOENT)?;
    let numbers = std::fs::read_to_string(Path::new("/sys/block").join(name).join("dev"));
    let numbers = numbers.map_err(|_| Errno::NOENT)?;
    let (major, minor) = numbers.trim().split_once(':').ok_or(Errno::NOENT)?;
    let parse = |number: &str| number.parse().map_err(|_| Errno::NOENT);
    let device = makedev(parse(major)?, parse(minor)?);
    let mode = Mode::RUSR | Mode::WUSR;
    match mknodat(rustix::fs::CWD, path, FileType::BlockDevice, mode, device) {
        Ok(()) | Err(Errno::EXIST) => open_device(path),
        Err(errno) => Err(errno),
    }
}

fn open_device(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}
