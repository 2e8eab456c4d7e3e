//! The group of one run. A run may make groups of its own below, as a machine
//! does: they are ended and removed with it.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::group::{count_kills, kill_tree, open_dir, remove_tree, settle_io};
use super::{CgroupEntry, CgroupError};

/// The group of one run, to find all that it forked.
#[derive(Clone, Debug)]
pub struct RunGroup {
    dir: PathBuf,
    v2: bool,
}

impl RunGroup {
    pub(super) fn new(dir: PathBuf, v2: bool) -> Self {
        Self { dir, v2 }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The way in for the run's process.
    pub(crate) fn join(&self) -> rustix::io::Result<CgroupEntry> {
        if self.v2 {
            return open_dir(&self.dir);
        }
        let tasks = self.dir.join("tasks");
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(CgroupEntry::Tasks(vec![rustix::fs::open(
            tasks,
            flags,
            Mode::empty(),
        )?]))
    }

    /// How many processes of this run the kernel has killed for want of
    /// memory; none where runs have no memory group of their own (v1).
    pub fn out_of_memory_kills(&self) -> Option<u64> {
        self.v2
            .then(|| count_kills(&self.dir.join("memory.events")))
    }

    /// Ends whatever is in the group, and in groups that the run made in it.
    pub fn kill(&self) -> Result<(), CgroupError> {
        kill_tree(&self.dir)
    }

    /// Ends whatever is still in the group and removes it.
    pub fn remove(&self) -> Result<(), CgroupError> {
        self.kill()?;
        if self.v2 {
            settle_io(&self.dir);
        }
        remove_tree(&self.dir)
    }
}
