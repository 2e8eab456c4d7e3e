//! The group of one run. A run may make groups of its own below, as a machine
//! does: they are ended and removed with it.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::group::{count_kills, kill_tree, open_folder, remove_tree, settle_io};
use super::{CgroupError, Join};

/// The group of one run, to find all that it forked.
#[derive(Clone, Debug)]
pub struct RunGroup {
    folder: PathBuf,
    v2: bool,
}

impl RunGroup {
    pub(super) fn new(folder: PathBuf, v2: bool) -> Self {
        Self { folder, v2 }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The way in for the run's process.
    pub(crate) fn join(&self) -> rustix::io::Result<Join> {
        if self.v2 {
            return open_folder(&self.folder);
        }
        let tasks = self.folder.join("tasks");
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(Join::Tasks(vec![rustix::fs::open(
            tasks,
            flags,
            Mode::empty(),
        )?]))
    }

    /// How many processes of this run the kernel has killed for want of
    /// memory; none where runs have no memory group of their own (v1).
    pub fn out_of_memory_kills(&self) -> Option<u64> {
        self.v2
            .then(|| count_kills(&self.folder.join("memory.events")))
    }

    /// Ends whatever is in the group, and in groups that the run made in it.
    pub fn kill(&self) -> Result<(), CgroupError> {
        kill_tree(&self.folder)
    }

    /// Ends whatever is still in the group and removes it.
    pub fn remove(&self) -> Result<(), CgroupError> {
        self.kill()?;
        if self.v2 {
            settle_io(&self.folder);
        }
        remove_tree(&self.folder)
    }
}
