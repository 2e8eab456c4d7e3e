//! The shim (`keeper`): the init that starts outermost cells. It is found again
//! after a restart of the daemon, and replaced when it has died; cells whose
//! shim died live on.
//!
//! It also holds the lease of what a server assigned: the daemon moves its end
//! with every heartbeat, and marks the cgroups of the cells it holds for. A shim
//! of an earlier release knows no lease; it is replaced before the first one is
//! set.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_cell::{CellInit, Cgroup, Cgroups, InitError, InitImage, Lease, StartedInit};
use strata_types::{CellSpec, Error, Result};

use super::Shared;
use super::error::{cgroup_error, init_error};
use crate::blocking::blocking;

/// A way to the shim, which is there once it is needed.
pub(crate) struct Keeper {
    folder: PathBuf,
    cgroups: Cgroups,
    image: Arc<InitImage>,
    current: Mutex<Option<Arc<CellInit>>>,
    fence: Mutex<Fence>,
}

/// What the shim is to end, and when.
#[derive(Default)]
struct Fence {
    lease: Lease,
    /// The cgroups of cells that the lease holds for.
    cells: HashSet<PathBuf>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    /// The shim whose socket is in `folder`, in the outermost of `cgroups`.
    pub(crate) fn new(folder: PathBuf, cgroups: Cgroups, image: Arc<InitImage>) -> Self {
        Self {
            folder,
            cgroups,
            image,
            current: Mutex::default(),
            fence: Mutex::default(),
        }
    }

    /// Starts a cell's init under the shim. Blocks.
    pub(super) fn start_cell(
        &self,
        shared: &Shared,
        spec: &CellSpec,
        cgroup: &Cgroup,
    ) -> Result<StartedInit> {
        let fenced = lock(&self.fence).cells.contains(cgroup.path());
        if fenced {
            cgroup.set_fenced(true).map_err(cgroup_error)?;
        }
        let folder = shared.folder.cell(&spec.name);
        let start = |keeper: &CellInit| {
            if fenced {
                // The shim may be of before there was anything under lease.
                keeper.set_lease(lock(&self.fence).lease, &self.cgroups.root())?;
            }
            keeper.start_cell(&self.image, spec, &folder, cgroup)
        };
        let keeper = self.reach()?;
        match start(&keeper) {
            Err(InitError::Link(_)) => {
                start(&*self.replace(&keeper)?).map_err(|error| init_error(&error))
            }
            started => started.map_err(|error| init_error(&error)),
        }
    }

    /// Has the lease hold for a cell, or not: one that runs, and whatever is
    /// started in its place.
    pub(crate) fn set_fenced(&self, cgroup: &Cgroup, fenced: bool) -> Result<()> {
        let mut fence = lock(&self.fence);
        let changed = match fenced {
            true => fence.cells.insert(cgroup.path().to_owned()),
            false => fence.cells.remove(cgroup.path()),
        };
        drop(fence);
        if !changed || !blocking(|| cgroup.exists()) {
            return Ok(());
        }
        blocking(|| cgroup.set_fenced(fenced)).map_err(cgroup_error)
    }

    /// Moves the end of the lease, in the shim where there is one or needs to
    /// be one. Blocks.
    pub(crate) fn set_lease(&self, lease: Lease) -> Result<()> {
        let needed = {
            let mut fence = lock(&self.fence);
            fence.lease = lease;
            !fence.cells.is_empty()
        };
        if !needed {
            return Ok(());
        }
        let keeper = self.reach()?;
        match keeper.set_lease(lease, &self.cgroups.root()) {
            // It died, is stuck, or is of an earlier release. A new one is
            // handed the lease when it is started.
            Err(InitError::Link(_)) => self.replace(&keeper).map(drop),
            set => set.map_err(|error| init_error(&error)),
        }
    }

    /// Takes over the lease that was set before the daemon started, as far as
    /// the shim knows. Blocks.
    pub(crate) fn adopt_lease(&self) -> Lease {
        let found = CellInit::connect_soon(&self.folder).and_then(|keeper| keeper.init.lease());
        let found = found.unwrap_or_default();
        lock(&self.fence).lease = found;
        found
    }

    /// Until when a cell may be started.
    pub(super) fn not_after(&self, cgroup: &Cgroup) -> Option<std::time::Duration> {
        let fence = lock(&self.fence);
        match fence.lease {
            Lease::Until(end) if fence.cells.contains(cgroup.path()) => Some(end),
            _ => None,
        }
    }

    /// Ends a shim that does not answer, for good, and starts another.
    fn replace(&self, keeper: &CellInit) -> Result<Arc<CellInit>> {
        let _ = keeper.kill();
        self.forget();
        self.reach()
    }

    /// The shim that runs, or a new one.
    fn reach(&self) -> Result<Arc<CellInit>> {
        let mut current = lock(&self.current);
        if let Some(keeper) = &*current {
            return Ok(keeper.clone());
        }
        let folder = &self.folder;
        let keeper = match CellInit::connect(folder) {
            Ok(keeper) => keeper,
            Err(_) => {
                let root = self.cgroups.root();
                root.create_plain().map_err(cgroup_error)?;
                let started = CellInit::start_keeper(&self.image, folder, &root)
                    .map_err(|error| Error::internal(error.to_string()))?;
                let lease = lock(&self.fence).lease;
                started
                    .init
                    .set_lease(lease, &root)
                    .map_err(|error| init_error(&error))?;
                started
            }
        };
        let keeper = Arc::new(keeper.init);
        *current = Some(keeper.clone());
        Ok(keeper)
    }

    fn forget(&self) {
        lock(&self.current).take();
    }

    /// Ends the shim and removes what it stood on.
    pub(crate) fn release(&self) {
        self.forget();
        let released = blocking(|| {
            if let Ok(keeper) = CellInit::connect(&self.folder) {
                keeper
                    .init
                    .kill()
                    .map_err(|error| Error::internal(error.to_string()))?;
            }
            self.cgroups.remove_all().map_err(cgroup_error)
        });
        if let Err(error) = released {
            tracing::warn!(%error, "the keeper could not be released");
        }
    }
}
