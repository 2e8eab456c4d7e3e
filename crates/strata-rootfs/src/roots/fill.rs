//! What an image has in the place of a volume is put into the volume, once,
//! before any pod has it.
//!
//! ```text
//! <name>/new        nothing was put into it yet
//! <name>/filling    it is being filled; whatever is in it is part of that
//! ```
//!
//! A volume that is being filled is in no pod yet, so a death in the middle
//! leaves nothing that a pod wrote: the next caller empties it and begins
//! again. All of it is on the disk before it counts as filled.

use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawDir, openat, syncfs};

use super::{Volumes, check};
use crate::bind::BindOptions;
use crate::{RootError, delete};

/// Beside the data of a volume that was just made.
pub(super) const NEW: &str = "new";
const FILLING: &str = "filling";
/// What a check of a file system may leave in a volume.
const LOST_AND_FOUND: &std::ffi::CStr = c"lost+found";

impl Volumes {
    /// Fills a volume with `copy`, which gets it open. One that is not empty
    /// stays as it is; one that was there before anything was known of filling
    /// is looked at only where `unused`: no pod has it. Not for two callers at
    /// once.
    pub fn fill(
        &self,
        name: &str,
        unused: bool,
        copy: impl FnOnce(&OwnedFd) -> Result<(), RootError>,
    ) -> Result<(), RootError> {
        check(name)?;
        let directory = self.0.root_dir(name);
        let (new, filling) = (directory.join(NEW), directory.join(FILLING));
        let begun = filling.exists();
        if !begun && !new.exists() && !unused {
            return Ok(());
        }
        let data = open_data(&self.mount(name, BindOptions::default())?, &directory)?;
        if begun {
            delete::empty_directory(&data).map_err(RootError::at("empty", &directory))?;
        } else if is_empty(&data).map_err(RootError::at("look through", &directory))? {
            File::create(&filling).map_err(RootError::at("mark", &directory))?;
            sync(&directory)?;
        } else {
            return remove(&new);
        }
        remove(&new)?;
        copy(&data)?;
        syncfs(&data).map_err(RootError::at("write out", &directory))?;
        remove(&filling)
    }
}

fn open_data(mount: &OwnedFd, directory: &Path) -> Result<OwnedFd, RootError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(mount, ".", flags, Mode::empty()).map_err(RootError::at("open", directory))
}

fn is_empty(data: &OwnedFd) -> rustix::io::Result<bool> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut entries = RawDir::new(data, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." && name != LOST_AND_FOUND {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sync(directory: &Path) -> Result<(), RootError> {
    let synced = File::open(directory).and_then(|open| open.sync_all());
    synced.map_err(RootError::at("write out", directory))
}

fn remove(mark: &Path) -> Result<(), RootError> {
    match fs::remove_file(mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RootError::io("remove", mark, error))
        }
        _ => Ok(()),
    }
}
