//! The devices of a btrfs: what they are, how they fare; one more, one less.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Fs;
use crate::sys::{self, Bytes};

/// A device as the file system knows it.
#[derive(Clone, Debug)]
pub(crate) struct DeviceInfo {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) allocated: u64,
    /// Nothing when the device is not there.
    pub(crate) path: Option<PathBuf>,
    pub(crate) errors: u64,
}

/// Why a device was not added or released: the kernel's call failed, or it was
/// refused for a reason of its own numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Failed(Errno),
    /// Too few devices would be left for what is kept twice.
    TooFew,
    /// It is the last that can be written.
    Last,
    /// Another change of the devices runs.
    Busy,
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// Positive answers are reasons.
fn reason(answer: i32) -> Result<(), Refused> {
    match answer {
        0 => Ok(()),
        1..=4 | 9 | 10 => Err(Refused::TooFew),
        7 => Err(Refused::Last),
        8 => Err(Refused::Busy),
        _ => Err(Refused::Failed(Errno::INVAL)),
    }
}

impl Fs {
    /// All devices, those that are not there too.
    pub(crate) fn devices(&self) -> Result<Vec<DeviceInfo>, Errno> {
        let info = self.info()?;
        let missing = format!("/sys/fs/btrfs/{}/devinfo", super::id_text(info.id));
        let mut devices = Vec::new();
        for id in 1..=info.highest_device {
            match self.device(id, Path::new(&missing)) {
                Err(Errno::NODEV) => {}
                device => devices.push(device?),
            }
        }
        Ok(devices)
    }

    fn device(&self, id: u64, sysfs: &Path) -> Result<DeviceInfo, Errno> {
        const PATH: usize = 3072;
        let mut answer = Bytes::new().with(0, id);
        sys::ioctl(&self.root, &sys::DEV_INFO, &mut answer)?;
        let missing = sysfs.join(id.to_string()).join("missing");
        let missing = std::fs::read(missing).is_ok_and(|text| text.starts_with(b"1"));
        let path = Some(answer.text(PATH))
            .filter(|path| !missing && path.starts_with(b"/"))
            .map(|path| PathBuf::from(OsStr::from_bytes(path)));
        Ok(DeviceInfo {
            id,
            bytes: answer.get(32),
            allocated: answer.get(24),
            errors: self.errors(id, false)?,
            path,
        })
    }

    /// What went wrong with a device: writing, reading, flushing, checksums,
    /// generations. `reset` counts from nothing again.
    pub(crate) fn errors(&self, id: u64, reset: bool) -> Result<u64, Errno> {
        const KINDS: u64 = 5;
        let mut answer = Bytes::new()
            .with(0, id)
            .with(8, KINDS)
            .with(16, u64::from(reset));
        match sys::ioctl(&self.root, &sys::DEV_STATS, &mut answer) {
            // The kernel does not count for one that is not there.
            Err(Errno::NODEV) => return Ok(0),
            other => other?,
        };
        Ok((0..5).map(|kind| answer.get(24 + 8 * kind)).sum())
    }

    /// Takes a block device into the file system.
    pub(crate) fn add_device(&self, device: &Path) -> Result<(), Refused> {
        let name = device.as_os_str().to_owned().into_vec();
        let mut argument = Bytes::new().with_text(8, 4088, &name)?;
        reason(sys::ioctl(&self.root, &sys::ADD_DEV, &mut argument)?)
    }

    /// Moves everything away from a device and lets it go. Takes as long as
    /// that takes; `ECANCELED` when [`Fs::cancel_remove`] was faster.
    pub(crate) fn remove_device(&self, id: u64) -> Result<(), Refused> {
        const BY_ID: u64 = 1 << 3;
        let mut argument = Bytes::new().with(16, BY_ID).with(56, id);
        reason(sys::ioctl(&self.root, &sys::RM_DEV_V2, &mut argument)?)
    }

    /// Stops a removal; what was moved stays where it is now.
    pub(crate) fn cancel_remove(&self) -> Result<(), Refused> {
        let mut argument = Bytes::new().with_text(56, 4040, b"cancel")?;
        reason(sys::ioctl(&self.root, &sys::RM_DEV_V2, &mut argument)?)
    }

    /// Uses so much of a device. What lies beyond is moved first, which takes
    /// as long as that takes; `ECANCELED` when [`Fs::cancel_resize`] was
    /// faster: then as much is used as before.
    pub(crate) fn resize(&self, id: u64, bytes: u64) -> Result<(), Refused> {
        let text = format!("{id}:{bytes}");
        let mut argument = Bytes::new().with_text(8, 4088, text.as_bytes())?;
        reason(sys::ioctl(&self.root, &sys::RESIZE, &mut argument)?)
    }

    /// Stops making a device smaller; what was moved stays where it is now.
    pub(crate) fn cancel_resize(&self) -> Result<(), Refused> {
        let mut argument = Bytes::new().with_text(8, 4088, b"cancel")?;
        reason(sys::ioctl(&self.root, &sys::RESIZE, &mut argument)?)
    }

    /// Uses all of a device that was larger than the one it replaced.
    pub(crate) fn use_all_of(&self, id: u64) -> Result<(), Errno> {
        let text = format!("{id}:max");
        let mut argument = Bytes::new().with_text(8, 4088, text.as_bytes())?;
        sys::ioctl(&self.root, &sys::RESIZE, &mut argument).map(drop)
    }
}
