//! Where ext4 puts new files.

use std::fs::File;
use std::path::Path;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// Hints to ext4 that the directories in this directory have nothing to do with
/// each other, so that the files of each are put into another part of the disk.
/// Without it they all come next to each other, where ext4 steps over every
/// file that was deleted in the last minutes, at each new one: where pods and
/// images come and go, that was half of a start and most of a pull. Other file
/// systems lack it and need nothing.
pub fn spread(dir: &Path) {
    let told = File::open(dir).and_then(|dir| {
        let flags = ioctl_getflags(&dir)? | IFlags::TOPDIR;
        Ok(ioctl_setflags(&dir, flags)?)
    });
    if let Err(error) = told {
        tracing::debug!(dir = %dir.display(), %error, "top-level directory flag not set");
    }
}
