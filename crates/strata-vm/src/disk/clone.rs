//! New disks: copy-on-write on a base, or empty. The file of a copy-on-write
//! disk is a header, counts and an empty table, so it is written here instead
//! of by `qemu-img`, which is one more package and one more process.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::error::io;
use super::qcow2::{Header, MAX_NAME};
use super::{DiskError, DiskInfo, MAX_DISK_BYTES, SECTOR, check_open_image, open, unfinished};
use crate::DiskFormat;

/// Makes `overlay`, a disk that begins as `base` and leaves it as it is. It has
/// `size` bytes, or as many as the base. Returns what the base is.
///
/// The base must be whole in itself, and must not change for as long as the
/// overlay is used. The overlay must not be there yet.
pub fn clone_disk(base: &Path, overlay: &Path, size: Option<u64>) -> Result<DiskInfo, DiskError> {
    let base = fs::canonicalize(base).map_err(io("find", base))?;
    clone_open_disk(&open(&base)?, &base, overlay, size)
}

/// The same for a base that is open already, for callers that decide what they
/// open by more than its path. The path is what the overlay calls its base;
/// nothing is opened by it.
pub fn clone_open_disk(
    file: &File,
    base: &Path,
    overlay: &Path,
    size: Option<u64>,
) -> Result<DiskInfo, DiskError> {
    let info = check_open_image(file, base)?;
    let size = size.unwrap_or(info.size);
    check_size(size)?;
    if size < info.size {
        return Err(DiskError::SmallerThanBase {
            size,
            base: info.size,
        });
    }
    let name = base.to_str().filter(|name| name.len() <= MAX_NAME);
    let name = name.ok_or_else(|| DiskError::BasePath { path: base.into() })?;
    let (bytes, length) = Header::write(size, Some((name, info.format.as_str())));
    place(overlay, &bytes, length)?;
    Ok(info)
}

/// Makes an empty disk that takes space as it is written. It must not be
/// there yet.
pub fn create_disk(path: &Path, format: DiskFormat, size: u64) -> Result<(), DiskError> {
    check_size(size)?;
    match format {
        DiskFormat::Raw => place(path, &[], size),
        DiskFormat::Qcow2 => {
            let (bytes, length) = Header::write(size, None);
            place(path, &bytes, length)
        }
    }
}

fn check_size(size: u64) -> Result<(), DiskError> {
    let refuse = |why| Err(DiskError::Size { size, why });
    match size {
        0 => refuse("it must have some"),
        size if size > MAX_DISK_BYTES => refuse("64 TiB is the most"),
        size if !size.is_multiple_of(SECTOR) => refuse("it must be a multiple of 512"),
        _ => Ok(()),
    }
}

fn place(path: &Path, bytes: &[u8], length: u64) -> Result<(), DiskError> {
    finish(path, |file| {
        file.write_all(bytes)?;
        file.set_len(length)
    })
}

/// Fills a new file under another name, then gives it its own: it is whole or
/// not there. A file that has the name already stays.
pub(crate) fn finish(
    path: &Path,
    fill: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), DiskError> {
    let new = unfinished(path);
    let made = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| fill(&mut file))
        .and_then(|()| {
            renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE).map_err(Into::into)
        });
    made.map_err(|error| {
        let _ = fs::remove_file(&new);
        io("make", path)(error)
    })
}
