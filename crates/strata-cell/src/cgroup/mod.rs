//! Control groups, version 1 with its hierarchies apart and version 2 with
//! its one tree. What is written where is decided by pure functions
//! (`v1::settings`, `v2::settings`); this module does it, finds it again,
//! and takes it away.
//!
//! ```text
//! v1   <controller>/strata/<run>/a/b            processes of cell a/b
//!      pids/strata/<run>/a/b/_r17               run 17 of it, to find what it forked
//! v2   strata/<run>/a/b/_init                   the init of cell a/b
//!      strata/<run>/a/b/_r17                    run 17 of it
//! ```
//!
//! A run that is a machine makes groups of its own below: its cgroup namespace
//! begins where the run was put, in v1 at the cell and for pids at `_r17`.

mod detect;
mod fence;
mod group;
mod kill;
mod processors;
mod run;
mod usage;
mod v1;
mod v2;

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use strata_types::{CellName, Label};

pub use group::Cgroup;
pub use run::RunGroup;
pub use usage::Usage;

use crate::HostPaths;

/// Why a cgroup could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// Neither version is mounted, or not with the controllers that are needed.
    #[error("this machine has no cgroup {0} controller mounted; Strata needs cpu, memory and pids")]
    Missing(&'static str),
    /// A limit that this version of cgroups cannot keep.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// The kernel refused a value.
    #[error("the kernel refused {value:?} for {file}: {source}")]
    Refused {
        /// The file, by its name alone.
        file: String,
        value: String,
        source: io::Error,
    },
    /// The kernel refused something else.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// To which file or directory.
        path: PathBuf,
        source: io::Error,
    },
}

/// A limit that cannot be kept here: which field, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unsupported {
    /// The field of the request.
    pub field: &'static str,
    /// Why, and what to do instead.
    pub why: String,
}

/// One value for one file of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CgroupSetting {
    pub(crate) controller: &'static str,
    pub(crate) file: &'static str,
    pub(crate) value: String,
    /// Left out where the kernel was built without it.
    pub(crate) optional: bool,
}

impl CgroupSetting {
    pub(crate) fn new(controller: &'static str, file: &'static str, value: impl Display) -> Self {
        Self {
            controller,
            file,
            value: value.to_string(),
            optional: false,
        }
    }
}

/// The controllers every cell has; `cpuset` is joined only where requested.
pub(crate) const V1_CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "blkio"];
/// What a whole machine has beyond that, where the kernel has it.
pub(crate) const V1_FURTHER: [&str; 8] = [
    "devices",
    "freezer",
    "net_cls",
    "net_prio",
    "perf_event",
    "hugetlb",
    "rdma",
    "misc",
];

/// Where controllers are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// Controller and mount point; several controllers may share one.
    V1(Vec<(&'static str, PathBuf)>),
    /// The one mount point.
    V2(PathBuf),
}

/// The file that v1 has in every group, and the one label a cell may have
/// that is also the name of such a file: all others have `.` or `_` in them.
const V1_TASKS: &str = "tasks";
/// The directory of a cell of that name. No label has `_` in it.
const V1_TASKS_DIRECTORY: &str = "tasks_";

impl Hierarchy {
    /// The directory of a cell's label.
    fn directory_of<'a>(&self, label: &'a str) -> &'a str {
        match self {
            Self::V1(_) if label == V1_TASKS => V1_TASKS_DIRECTORY,
            _ => label,
        }
    }

    /// The label whose directory this is.
    fn label_of(&self, directory: String) -> String {
        match self {
            Self::V1(_) if directory == V1_TASKS_DIRECTORY => V1_TASKS.to_owned(),
            _ => directory,
        }
    }
}

/// All control groups of one run of the product.
#[derive(Clone, Debug)]
pub struct Cgroups {
    hierarchy: Hierarchy,
    /// Hierarchies of v1 that cells do without.
    further: Vec<(&'static str, PathBuf)>,
    /// `strata/<run>`.
    base: PathBuf,
    whole: bool,
}

impl Cgroups {
    /// Finds out what the machine has. `run` names this run of the product.
    pub fn detect(paths: &HostPaths, run: &str) -> Result<Self, CgroupError> {
        let base = Path::new("strata").join(run);
        Ok(Self {
            hierarchy: detect::hierarchy(paths)?,
            further: detect::further(paths),
            base,
            whole: false,
        })
    }

    /// Groups of another kind inside this run's, apart from its cells. `name`
    /// must not be one that a cell can have.
    pub fn within(&self, name: &str) -> Self {
        Self {
            base: self.base.join(name),
            ..self.clone()
        }
    }

    /// The same in every hierarchy there is, also in those that cells have no
    /// use for: what is meant to look like a machine has a place of its own in
    /// each.
    #[must_use]
    pub fn whole(&self) -> Self {
        let mut whole = self.clone();
        whole.whole = true;
        if let Hierarchy::V1(mounts) = &mut whole.hierarchy {
            mounts.append(&mut whole.further);
        }
        whole
    }

    /// Whether cells are made with cgroup v2.
    pub fn is_v2(&self) -> bool {
        matches!(self.hierarchy, Hierarchy::V2(_))
    }

    /// The controllers of v1 in whose hierarchies these groups are; none with v2.
    pub fn v1_controllers(&self) -> Option<Vec<&'static str>> {
        match &self.hierarchy {
            Hierarchy::V1(mounts) => Some(mounts.iter().map(|(name, _)| *name).collect()),
            Hierarchy::V2(_) => None,
        }
    }

    /// The group that holds all others of this run, and the shim.
    pub fn root(&self) -> Cgroup {
        Cgroup::new(self.hierarchy.clone(), self.base.clone(), self.whole)
    }

    /// The group of a cell.
    pub fn cell(&self, name: &CellName) -> Cgroup {
        let mut path = self.base.clone();
        let labels = name.labels().iter().map(Label::as_str);
        path.extend(labels.map(|label| self.hierarchy.directory_of(label)));
        Cgroup::new(self.hierarchy.clone(), path, self.whole)
    }

    /// The outermost cells that have a group, desired or not.
    pub fn outermost(&self) -> Vec<String> {
        self.root().children()
    }

    /// Ends every process in this run's groups and removes them all, and the
    /// directory above when no other run is in it.
    pub fn remove_all(&self) -> Result<(), CgroupError> {
        let root = self.whole().root();
        root.remove_tree()?;
        root.remove_empty_parent();
        Ok(())
    }
}

/// How a new process gets into a group.
#[derive(Debug)]
pub(crate) enum CgroupEntry {
    /// It writes itself into these `tasks` files.
    Tasks(Vec<OwnedFd>),
    /// It is born into this directory.
    Directory(OwnedFd),
}

impl CgroupEntry {
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = match self {
            Self::Tasks(files) => files.as_slice(),
            Self::Directory(dir) => std::slice::from_ref(dir),
        };
        files.iter().map(AsFd::as_fd)
    }

    /// Files into which a process may write itself.
    pub(crate) fn tasks_files(self) -> rustix::io::Result<Vec<OwnedFd>> {
        match self {
            Self::Tasks(files) => Ok(files),
            Self::Directory(dir) => {
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                Ok(vec![rustix::fs::openat(
                    dir,
                    "cgroup.procs",
                    flags,
                    Mode::empty(),
                )?])
            }
        }
    }
}
