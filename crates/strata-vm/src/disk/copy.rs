//! Whole copies of a disk: shared blocks where the file system can, else only
//! what is not a hole.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{SeekFrom, copy_file_range, ioctl_ficlone, seek};
use rustix::io::Errno;

use super::clone::finish;
use super::{DiskError, open};

/// Copies an image file. `to` must not be there yet. Returns whether the two
/// share their blocks, so that the copy took no time and no space.
pub fn copy_disk(from: &Path, to: &Path) -> Result<bool, DiskError> {
    let source = open(from)?;
    let mut shared = false;
    finish(to, |target| {
        shared = ioctl_ficlone(&*target, &source).is_ok();
        if shared {
            return Ok(());
        }
        copy_data(&source, target)
    })?;
    Ok(shared)
}

fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut at = 0;
    while at < length {
        let start = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole up to the end.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        at = seek(from, SeekFrom::Hole(start))?;
        copy_range(from, to, start, at)?;
    }
    Ok(())
}

fn copy_range(from: &File, to: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut read_at, mut write_at) = (start, start);
    while read_at < end {
        let left = usize::try_from(end - read_at)
            .unwrap_or(usize::MAX)
            .min(1 << 30);
        match copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), left) {
            // It became shorter while it was read.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            // From one file system to another.
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::INVAL) => {
                return copy_bytes(from, to, read_at, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_bytes(from: &File, to: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    while at < end {
        let wanted = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        from.read_exact_at(&mut buffer[..wanted], at)?;
        to.write_all_at(&buffer[..wanted], at)?;
        at += wanted as u64;
    }
    Ok(())
}
