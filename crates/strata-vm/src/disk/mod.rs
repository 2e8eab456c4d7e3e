//! Disks: what an image file is, and copies of it that cost nothing.
//!
//! An image is hostile until it is checked. A qcow2 file can name any other
//! file as its backing or its data, and QEMU would read that for the guest; so
//! the header is read here, within bounds, and an image that names another file
//! is refused. What a file is, is found out once, when it is imported and
//! before any guest could write to it, and passed explicitly ever after.

mod clone;
mod copy;
mod error;
pub(crate) mod qcow2;

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

pub(crate) use clone::finish;
pub use clone::{clone_disk, clone_open_disk, create_disk};
pub use copy::copy_disk;
pub use error::DiskError;
use qcow2::Header;

use crate::DiskFormat;

/// The largest disk: 64 TiB.
const MAX_DISK_BYTES: u64 = 64 << 40;
/// Disks are made of sectors.
const SECTOR: u64 = 512;

/// What an image file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskInfo {
    pub format: DiskFormat,
    /// How large the guest sees it, in bytes.
    pub size: u64,
    /// How much of the host's disk it takes, in bytes.
    pub allocated: u64,
    /// The file it stands on, as its header names it.
    pub backing: Option<Backing>,
    /// Its header names a file that has its data.
    pub has_data_file: bool,
}

/// The base that the header of an image names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The name, which can be anything.
    pub name: String,
    /// The format, if it is named.
    pub format: Option<String>,
}

/// What an image file is. Checks only whether it can be read.
pub fn disk_info(path: &Path) -> Result<DiskInfo, DiskError> {
    read_info(path, &open(path)?)
}

/// Looks at an image that came from elsewhere, and refuses one that names
/// another file.
pub fn check_image(path: &Path) -> Result<DiskInfo, DiskError> {
    let info = disk_info(path)?;
    refuse_others(path, &info)?;
    Ok(info)
}

/// The same for one that is open already.
pub(crate) fn check_open_image(file: &File, path: &Path) -> Result<DiskInfo, DiskError> {
    let info = read_info(path, file)?;
    refuse_others(path, &info)?;
    Ok(info)
}

/// Looks at a copy-on-write disk, and refuses one that stands on anything but
/// this base.
pub fn check_overlay(path: &Path, base: &Path) -> Result<DiskInfo, DiskError> {
    let info = disk_info(path)?;
    let names_base = |backing: &Backing| Path::new(&backing.name) == base;
    if info.backing.as_ref().is_some_and(names_base) && !info.has_data_file {
        return Ok(info);
    }
    Err(DiskError::NotItsBase {
        path: path.into(),
        base: base.into(),
    })
}

fn refuse_others(path: &Path, info: &DiskInfo) -> Result<(), DiskError> {
    if let Some(backing) = &info.backing {
        return Err(DiskError::NamesBacking {
            path: path.into(),
            name: backing.name.clone(),
        });
    }
    if info.has_data_file {
        return Err(DiskError::NamesDataFile { path: path.into() });
    }
    Ok(())
}

fn read_info(path: &Path, file: &File) -> Result<DiskInfo, DiskError> {
    let io = error::io("look at", path);
    let metadata = file.metadata().map_err(&io)?;
    let read = |most: u64, to: &mut Vec<u8>| file.take(most).read_to_end(to).map_err(&io);
    let mut start = Vec::new();
    read(Header::FIRST, &mut start)?;
    // A raw disk has no header: the first bytes show it.
    if Header::may_begin(&start) {
        read(Header::READ, &mut start)?;
    }
    let header = Header::read(&start).map_err(|why| DiskError::Header {
        path: path.into(),
        why,
    })?;
    let info = match header {
        Some(header) => DiskInfo {
            format: DiskFormat::Qcow2,
            size: header.size,
            allocated: metadata.blocks() * 512,
            backing: header.backing,
            has_data_file: header.has_data_file,
        },
        None => DiskInfo {
            format: DiskFormat::Raw,
            // As QEMU does: a sector that is cut is a whole one.
            size: metadata.len().next_multiple_of(SECTOR),
            allocated: metadata.blocks() * 512,
            backing: None,
            has_data_file: false,
        },
    };
    if info.size > MAX_DISK_BYTES {
        return Err(DiskError::TooLarge {
            path: path.into(),
            size: info.size,
        });
    }
    Ok(info)
}

/// Opens a regular file, without waiting for what else it may be.
fn open(path: &Path) -> Result<File, DiskError> {
    let io = error::io("open", path);
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file = File::options()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)
        .map_err(&io)?;
    if !file.metadata().map_err(&io)?.is_file() {
        return Err(DiskError::NoFile { path: path.into() });
    }
    Ok(file)
}

/// A name beside `path` for what is not whole yet.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}
