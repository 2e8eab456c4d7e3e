//! Where ext4 puts new files.

use std::fs::File;
use std::path::Path;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// Tells ext4 that the folders in this folder have nothing to do with each
/// other, so that the files of each are put into another part of the disk.
/// Without it they all come next to each other, where ext4 steps over every
/// file that was deleted in the last minutes, at each new one: where pods and
/// images come and go, that was half of a start and most of a pull. Other file systems know nothing of it and
/// need nothing.
pub fn spread(folder: &Path) {
    let told = File::open(folder).and_then(|folder| {
        let flags = ioctl_getflags(&folder)? | IFlags::TOPDIR;
        Ok(ioctl_setflags(&folder, flags)?)
    });
    if let Err(error) = told {
        tracing::debug!(folder = %folder.display(), %error, "what is in it is not spread");
    }
}
