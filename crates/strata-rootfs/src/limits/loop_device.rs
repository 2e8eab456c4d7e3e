//! Loop devices that release their file by themselves: when the last user that
//! has one open is gone, be it a mount, this process or its corpse.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::{RootError, sys};

const CONTROL: &str = "/dev/loop-control";
/// Others take loop devices too, between our query and our attach.
const ATTEMPTS: usize = 64;

pub(super) struct LoopDevice {
    pub(super) path: String,
    /// The device is free again when this and every mount of it are closed.
    _device: OwnedFd,
}

/// Whether there are loop devices at all.
pub(super) fn possible() -> Result<(), String> {
    open_device(CONTROL)
        .map(drop)
        .map_err(|errno| format!("there are no loop devices ({CONTROL}: {errno})"))
}

/// Attaches a file. The device holds the very same open file, with its lock.
pub(super) fn attach(image: &File) -> Result<LoopDevice, RootError> {
    let control = open_device(CONTROL).map_err(RootError::at("open", Path::new(CONTROL)))?;
    let mut last = Errno::BUSY;
    for _ in 0..ATTEMPTS {
        let number = sys::free_loop_device(&control)
            .map_err(RootError::at("get a loop device from", Path::new(CONTROL)))?;
        let path = format!("/dev/loop{number}");
        let device = open_device(&path).map_err(RootError::at("open", Path::new(&path)))?;
        match sys::configure_loop(&device, image) {
            Ok(()) => {
                return Ok(LoopDevice {
                    path,
                    _device: device,
                });
            }
            Err(Errno::BUSY) => last = Errno::BUSY,
            Err(errno) => return Err(RootError::io("set up", &path, errno)),
        }
    }
    Err(RootError::io("get a loop device from", CONTROL, last))
}

/// The device that has this file, if one has. It keeps it for as long as the
/// answer is held, so that it can be mounted again.
pub(super) fn of(image: &File) -> Result<Option<LoopDevice>, RootError> {
    const DEVICES: &str = "/sys/block";
    let failed = || RootError::at::<std::io::Error>("look through", Path::new(DEVICES));
    let wanted = image.metadata().map_err(failed())?;
    for entry in std::fs::read_dir(DEVICES).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        // The kernel shows this while the device has a file.
        if !entry.path().join("loop").is_dir() {
            continue;
        }
        let path = format!("/dev/{}", entry.file_name().to_string_lossy());
        // A device that is just releasing its file is not opened, or has none.
        let Ok(device) = open_device(&path) else {
            continue;
        };
        if sys::loop_file(&device) == Ok((wanted.dev(), wanted.ino())) {
            let _device = device;
            return Ok(Some(LoopDevice { path, _device }));
        }
    }
    Ok(None)
}

fn open_device(path: &str) -> Result<OwnedFd, Errno> {
    open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}
