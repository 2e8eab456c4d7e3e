//! Making a root: everything aside, then one rename.

use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with};
use rustix::io::Errno;

use super::record::Limit;
use super::{IMAGE, Roots, Shape, TMP, check, fill, volumes};
use crate::limits::{DiskLimits, btrfs, image, project};
use crate::{RootError, sys};

impl Roots {
    /// Makes the writable layer of a pod, which may hold so many bytes. It is
    /// there whole or not at all. Again with the same limit does nothing.
    ///
    /// A writer beyond the limit gets `ENOSPC` or `EDQUOT`.
    pub fn create(&self, id: &str, disk: Option<u64>) -> Result<(), RootError> {
        check(id)?;
        if let Some(bytes) = disk.filter(|bytes| *bytes < image::MIN_LIMIT) {
            return Err(RootError::LimitTooSmall {
                wanted: bytes,
                least: image::MIN_LIMIT,
            });
        }
        // Nothing is made in vain, nor refused for want of room.
        if self.root_dir(id).is_dir() {
            return self.same_limit(id, disk);
        }
        let name = self.unique(id);
        let new = self.path.join(TMP).join(&name);
        let made = self.make(&new, &name, disk);
        let made = made.and_then(|()| self.mark_new(&new)).and_then(|()| {
            let flags = RenameFlags::NOREPLACE;
            match renameat_with(CWD, &new, &self.dir, id, flags) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => self.same_limit(id, disk).map(|()| false),
                Err(errno) => Err(RootError::io("make", self.root_dir(id), errno)),
            }
        });
        match made {
            Ok(true) => Ok(()),
            other => {
                if let Err(error) = self.destroy(TMP, &name) {
                    tracing::warn!(root = name, %error, "incomplete root not removed; retried at the next start");
                }
                other.map(drop)
            }
        }
    }

    /// Notes that nothing was put into a volume yet.
    fn mark_new(&self, new: &Path) -> Result<(), RootError> {
        if self.shape != Shape::Volumes {
            return Ok(());
        }
        let mark = std::fs::File::create(new.join(fill::NEW));
        mark.map(drop).map_err(RootError::at("mark", new))
    }

    fn same_limit(&self, id: &str, wanted: Option<u64>) -> Result<(), RootError> {
        let has = self.limit_of(id)?.map(Limit::bytes);
        if has == wanted {
            return Ok(());
        }
        Err(RootError::OtherLimit {
            id: id.into(),
            wanted,
            has,
        })
    }

    fn make(&self, new: &Path, name: &str, disk: Option<u64>) -> Result<(), RootError> {
        let Some(bytes) = disk else {
            dir(new, 0o700)?;
            return self.writable_in(new);
        };
        match &self.limits {
            DiskLimits::Unsupported(reason) => Err(RootError::LimitUnsupported {
                reason: reason.clone(),
            }),
            DiskLimits::Loop => {
                dir(new, 0o700)?;
                let image = new.join(IMAGE);
                self.templates.copy_to(&image, bytes)?;
                if self.shape == Shape::Volumes {
                    volumes::empty(name, &image)?;
                }
                Limit::Image { bytes }.write(new)
            }
            DiskLimits::Btrfs => {
                let tmp = open(&self.path.join(TMP))?;
                sys::create_subvolume(&tmp, name).map_err(RootError::at("make", new))?;
                let id = btrfs::limit(open(new)?, bytes).map_err(RootError::at("limit", new))?;
                Limit::Subvolume { bytes, id }.write(new)?;
                self.writable_in(new)
            }
            DiskLimits::Project => {
                let id = self.projects.take(&self.dir)?;
                let made = self.make_project(new, bytes, id);
                // With a record, the removal of the directory frees the id.
                if made.is_err() && !matches!(Limit::read(new), Ok(Some(_))) {
                    self.projects.give_back(&self.dir, id);
                }
                made
            }
        }
    }

    fn make_project(&self, new: &Path, bytes: u64, id: u32) -> Result<(), RootError> {
        dir(new, 0o700)?;
        Limit::Project { bytes, id }.write(new)?;
        project::limit(open(new)?, id, bytes).map_err(RootError::at("limit", new))?;
        self.writable_in(new)
    }

    /// The directories that are written to.
    fn writable_in(&self, new: &Path) -> Result<(), RootError> {
        for (name, mode) in self.shape.dirs() {
            let path = new.join(name);
            dir(&path, *mode)?;
            // The umask of the process may have taken bits away.
            let mode = Mode::from_raw_mode(*mode);
            rustix::fs::chmod(&path, mode).map_err(RootError::at("open up", &path))?;
        }
        Ok(())
    }
}

fn dir(path: &Path, mode: u32) -> Result<(), RootError> {
    mkdirat(CWD, path, Mode::from_raw_mode(mode)).map_err(RootError::at("make", path))
}

fn open(path: &Path) -> Result<std::os::fd::OwnedFd, RootError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(RootError::at("open", path))
}
