//! A device of the pool before the file system has it: made, looked at,
//! attached.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

use crate::attach::{self, Attached};
use crate::record::DeviceRecord;
use crate::sys::{self, Bytes};
use crate::{Result, StorageError};

/// Loop devices and the file system count in these.
const BLOCK: u64 = 4096;
/// Partition tables and almost all file systems write within this.
const BEGINNING: usize = 128 << 10;

/// What the file system wrote on a device of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) id: [u8; 16],
    pub(crate) number: u64,
    /// Of two devices with one number, the higher one is right.
    pub(crate) generation: u64,
}

/// Makes a sparse file to be a device.
pub(crate) fn make_file(path: &Path, bytes: u64) -> Result<u64> {
    let bytes = bytes / BLOCK * BLOCK;
    let made = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| file.set_len(bytes));
    made.map_err(StorageError::at("make", path))?;
    Ok(bytes)
}

/// Takes the room of a file from the disk, so that writing cannot fail.
pub(crate) fn preallocate(path: &Path, bytes: u64) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path);
    let file = file.map_err(StorageError::at("open", path))?;
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes).map_err(StorageError::at("reserve", path))
}

/// Gives the room of a file back to the disk; the file stays as large.
pub(crate) fn give_back(path: &Path, bytes: u64) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path);
    let file = file.map_err(StorageError::at("open", path))?;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, flags, 0, bytes).map_err(StorageError::at("give back", path))
}

/// Gives the room of a file from an offset on back to the disk; the file stays
/// as large.
pub(crate) fn give_back_from(path: &Path, from: u64, bytes: u64) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path);
    let file = file.map_err(StorageError::at("open", path))?;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, flags, from, bytes.saturating_sub(from))
        .map_err(StorageError::at("give back", path))
}

/// The size of a block device that is not in use.
pub(crate) fn free_block_device(path: &Path, overwrite: bool) -> Result<u64> {
    let metadata = fs::metadata(path).map_err(StorageError::at("look at", path))?;
    if !metadata.file_type().is_block_device() {
        let why = format!("{} is not a block device", path.display());
        return Err(StorageError::invalid("path", why));
    }
    let taken = |why| StorageError::DeviceTaken {
        path: path.to_owned(),
        why,
    };
    // The kernel gives it exclusively only while nothing is mounted from it.
    let exclusively = i32::try_from((OFlags::EXCL | OFlags::CLOEXEC).bits()).unwrap_or_default();
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(exclusively)
        .open(path)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::ResourceBusy => taken("is in use"),
            _ => StorageError::at("open", path)(error),
        })?;
    let mut beginning = vec![0; BEGINNING];
    device
        .read_exact_at(&mut beginning, 0)
        .map_err(StorageError::at("read", path))?;
    if !overwrite && beginning.iter().any(|byte| *byte != 0) {
        return Err(taken("has data on it"));
    }
    size(&device).map_err(StorageError::at("look at", path))
}

fn size(device: impl AsFd) -> std::io::Result<u64> {
    let mut answer = Bytes::new();
    sys::ioctl(device, &sys::BLOCK_SIZE, &mut answer)?;
    Ok(answer.get(0))
}

/// What is written on a device; nothing when it is not there or not ours.
pub(crate) fn signature(device: &DeviceRecord) -> Option<Signature> {
    const PLACE: u64 = 64 << 10;
    const MAGIC: &[u8] = b"_BHRfS_M";
    let file = File::open(&device.path).ok()?;
    let mut block = [0; 256];
    file.read_exact_at(&mut block, PLACE).ok()?;
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&block[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    if &block[64..72] != MAGIC {
        return None;
    }
    let mut id = [0; 16];
    id.copy_from_slice(&block[32..48]);
    Some(Signature {
        id,
        number: number(201),
        generation: number(72),
    })
}

/// Makes a block device of it.
pub(crate) fn attached(device: &DeviceRecord) -> Result<Attached> {
    if device.file {
        attach::file(&device.path)
    } else {
        attach::block(&device.path)
    }
}

/// Whether the block device at `path` is this one. That it cannot be determined
/// for want of memory or descriptors is an error, and no answer.
pub(crate) fn is_behind(device: &DeviceRecord, path: &Path) -> Result<bool> {
    let Some(own) = metadata(&device.path)? else {
        return Ok(false);
    };
    if device.file {
        return Ok(attach::file_behind(path)? == Some((own.dev(), own.ino())));
    }
    Ok(metadata(path)?.is_some_and(|other| other.rdev() == own.rdev()))
}

fn metadata(path: &Path) -> Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if Errno::from_io_error(&error).is_some_and(attach::is_want) => {
            Err(StorageError::at("look at", path)(error))
        }
        Err(_) => Ok(None),
    }
}
