//! The volumes of one node: directories that outlive pods and that several pods
//! may have at once, limited in the same three ways as the roots of pods.
//!
//! A limited one may be a file system in a file. Its first user attaches it
//! to a loop device; the others, also of a daemon that was started later,
//! find that device and mount it again.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::record::Limit;
use super::{DATA, DiskUsage, IMAGE, Roots, Shape, check};
use crate::RootError;
use crate::bind::{BindOptions, bind, finish};
use crate::limits::{DiskLimits, image};

/// All volumes of one node. One process at a time has a directory open.
pub struct Volumes(pub(super) Roots);

impl Volumes {
    /// Opens the directory, and finds out how its file system can limit volumes.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        Roots::open_as(path, Shape::Volumes).map(Self)
    }

    /// How a size is enforced here, if it can be.
    #[must_use]
    pub fn disk_limits(&self) -> &DiskLimits {
        self.0.disk_limits()
    }

    /// Makes an empty volume that may hold so many bytes. It is there whole
    /// or not at all. Again with the same size does nothing.
    pub fn create(&self, name: &str, bytes: Option<u64>) -> Result<(), RootError> {
        self.0.create(name, bytes)
    }

    /// Whether there is such a volume.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        check(name).is_ok() && self.0.root_dir(name).is_dir()
    }

    /// The names of all volumes, in no order.
    pub fn list(&self) -> Result<Vec<String>, RootError> {
        self.0.list()
    }

    /// How much it may hold; none without a limit.
    pub fn size(&self, name: &str) -> Result<Option<u64>, RootError> {
        Ok(self.0.limit_of(name)?.map(Limit::bytes))
    }

    /// How much disk a volume takes; see [`Roots::usage`].
    pub fn usage(&self, name: &str) -> Result<DiskUsage, RootError> {
        self.0.usage(name)
    }

    /// When it was made.
    pub fn created(&self, name: &str) -> Result<SystemTime, RootError> {
        check(name)?;
        let dir = self.0.root_dir(name);
        let metadata = std::fs::metadata(&dir).map_err(RootError::at("look at", &dir))?;
        // Nothing is made in it or taken from it later.
        let made = metadata.created().or_else(|_| metadata.modified());
        made.map_err(RootError::at("look at", &dir))
    }

    /// Removes a volume with all that is in it. One that is not there is no
    /// error. No pod may use it any more.
    pub fn remove(&self, name: &str) -> Result<(), RootError> {
        self.0.remove(name)
    }

    /// A detached mount of a volume, to be seen inside a pod.
    pub fn mount(&self, name: &str, options: BindOptions<'_>) -> Result<OwnedFd, RootError> {
        let dir = self.0.root_dir(name);
        match self.0.limit_of(name)? {
            Some(Limit::Image { .. }) => {
                let options = BindOptions {
                    recursive: false,
                    ..options
                };
                finish(image::mount_shared(name, &dir.join(IMAGE))?, options)
            }
            _ => bind(&dir.join(DATA), options),
        }
    }
}

/// A new file system has a directory for what is found after damage; a program
/// that expects an empty volume fails on it, and a check makes it again.
pub(super) fn empty(name: &str, path: &Path) -> Result<(), RootError> {
    let mount = image::mount(name, path)?;
    match unlinkat(&mount, "lost+found", AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(RootError::io("empty", path, errno)),
    }
}
