//! Opening the directory of all roots: made when it is not there, locked, and
//! cleared of what a death left half done.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use super::record::Limit;
use super::{BASE, GONE, PLACE, Roots, Shape, TEMPLATES, TMP, points};
use crate::limits::image::Templates;
use crate::limits::project::Projects;
use crate::{RootError, delete, limits, spread};

impl Roots {
    /// Opens the directory, and finds out how its file system can limit pods.
    /// Blocks for as long as it takes to remove what was being removed.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        Self::open_as(path, Shape::Layers)
    }

    pub(super) fn open_as(path: &Path, shape: Shape) -> Result<Self, RootError> {
        let path = std::path::absolute(path).map_err(RootError::at("find", path))?;
        // No other user of the host reaches set-user-id files in here.
        make_dir(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &path, flags, Mode::empty()).map_err(RootError::at("open", &path))?;
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(RootError::InUse { path }),
            other => other.map_err(RootError::at("lock", &path))?,
        }
        for name in [BASE, TEMPLATES, TMP, GONE, PLACE] {
            make_dir(&path.join(name))?;
        }
        spread(&path.join(TMP));
        points::make_base(&path.join(BASE))?;
        let limits = limits::detect(dir.as_fd(), &path)?;
        let mut seed = DefaultHasher::new();
        path.hash(&mut seed);
        let roots = Self {
            templates: Templates::new(path.join(TEMPLATES), shape.in_image()),
            projects: Projects::new(seed.finish()),
            path,
            dir,
            limits,
            shape,
            count: AtomicU64::new(0),
            old_overlay: AtomicBool::new(false),
            old_detached: AtomicBool::new(false),
        };
        roots.clear(TMP)?;
        roots.clear(GONE)?;
        for id in roots.list()? {
            if let Some(Limit::Project { id, .. }) = roots.limit_of(&id)? {
                roots.projects.known(id);
            }
        }
        Ok(roots)
    }

    fn clear(&self, dir: &str) -> Result<(), RootError> {
        let path = self.path.join(dir);
        for name in names(&path).map_err(RootError::at("look through", &path))? {
            self.destroy(dir, &name)?;
        }
        Ok(())
    }

    /// Removes a half-made or half-removed root, according to its record.
    pub(super) fn destroy(&self, dir: &str, name: &str) -> Result<(), RootError> {
        let path = self.path.join(dir).join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat(&self.dir, dir, flags, Mode::empty())
            .map_err(RootError::at("open", &self.path.join(dir)))?;
        match Limit::read(&path) {
            Ok(Some(Limit::Subvolume { id, .. })) => {
                match limits::btrfs::destroy(parent.as_fd(), name, id) {
                    Ok(()) | Err(Errno::NOENT) => return Ok(()),
                    Err(errno) => {
                        tracing::warn!(?path, %errno, "subvolume removed file by file");
                    }
                }
            }
            Ok(Some(Limit::Project { id, .. })) => {
                let released = fs::File::open(&path)
                    .map_err(|_| Errno::NOENT)
                    .and_then(limits::project::release);
                if let Err(errno) = released {
                    tracing::debug!(?path, %errno, "project id of a root kept during removal");
                }
                let removed = remove_tree(&parent, &path, name);
                // Its usage is gone now, so the id is free for others.
                self.projects.give_back(&self.dir, id);
                return removed;
            }
            _ => {}
        }
        remove_tree(&parent, &path, name)
    }
}

fn remove_tree(parent: &OwnedFd, path: &Path, name: &str) -> Result<(), RootError> {
    let name = CString::new(name).map_err(|_| RootError::io("remove", path, Errno::INVAL))?;
    delete::remove_tree(parent.as_fd(), &name).map_err(RootError::at("remove", path))
}

fn make_dir(path: &Path) -> Result<(), RootError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(RootError::at("make", path))
}

fn names(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        // We gave all names in there, so none is anything but plain text.
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    Ok(names)
}
