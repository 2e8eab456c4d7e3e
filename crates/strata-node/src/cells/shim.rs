//! The shim (`shim`): the init that starts outermost cells. It is found again
//! after a restart of the daemon, and replaced when it has died; cells whose
//! shim died live on.
//!
//! It also holds the lease of what a server assigned: the daemon moves its end
//! with every heartbeat, and marks the cgroups of the cells it holds for. A shim
//! of an earlier release knows no lease; it is replaced before the first one is
//! set.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_cell::{CellInit, Cgroup, Cgroups, InitError, InitImage, Lease, LeaseFile, StartedInit};
use strata_types::{CellSpec, Error, Result};

use super::Shared;
use super::error::{cgroup_error, init_error};
use crate::blocking::blocking;

/// A way to the shim, which is there once it is needed.
pub(crate) struct Shim {
    dir: PathBuf,
    cgroups: Cgroups,
    image: Arc<InitImage>,
    current: Mutex<Option<Arc<CellInit>>>,
    fence: Mutex<LeaseFence>,
    /// For the inits of cells that the lease holds for.
    lease_file: LeaseFile,
}

/// What the shim is to end, and when.
#[derive(Default)]
struct LeaseFence {
    lease: Lease,
    /// The cgroups of cells that the lease holds for.
    cells: HashSet<PathBuf>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shim {
    /// The shim whose socket is in `dir`, in the outermost of `cgroups`.
    pub(crate) fn new(dir: PathBuf, cgroups: Cgroups, image: Arc<InitImage>) -> io::Result<Self> {
        Ok(Self {
            dir,
            cgroups,
            image,
            current: Mutex::default(),
            fence: Mutex::default(),
            lease_file: LeaseFile::new()?,
        })
    }

    /// Starts a cell's init under the shim. Blocks.
    pub(super) fn start_cell(
        &self,
        shared: &Shared,
        spec: &CellSpec,
        cgroup: &Cgroup,
    ) -> Result<StartedInit> {
        let fenced = self.is_fenced(cgroup);
        if fenced {
            cgroup.set_fenced(true).map_err(cgroup_error)?;
        }
        let dir = shared.dir.cell(&spec.name);
        let start = |shim: &CellInit| {
            if fenced {
                // The shim may be of before there was anything under lease.
                shim.set_lease(lock(&self.fence).lease, &self.cgroups.root())?;
            }
            shim.start_cell(&self.image, spec, &dir, cgroup)
        };
        let shim = self.reach()?;
        match start(&shim) {
            Err(InitError::Link(_)) => {
                start(&*self.replace(&shim)?).map_err(|error| init_error(&error))
            }
            started => started.map_err(|error| init_error(&error)),
        }
    }

    /// Has the lease hold for a cell, or not: one that runs, and whatever is
    /// started in its place. Whether that is a change.
    pub(crate) fn set_fenced(&self, cgroup: &Cgroup, fenced: bool) -> Result<bool> {
        let mut fence = lock(&self.fence);
        let changed = match fenced {
            true => fence.cells.insert(cgroup.path().to_owned()),
            false => fence.cells.remove(cgroup.path()),
        };
        drop(fence);
        if changed && blocking(|| cgroup.exists()) {
            if fenced {
                // While nothing was under lease the shim was sent none of its
                // renewals: it would end a cell by one that is long over.
                self.renew()?;
            }
            blocking(|| cgroup.set_fenced(fenced)).map_err(cgroup_error)?;
        }
        Ok(changed)
    }

    /// Whether the lease holds for a cell.
    pub(super) fn is_fenced(&self, cgroup: &Cgroup) -> bool {
        lock(&self.fence).cells.contains(cgroup.path())
    }

    /// Has the init of a cell end with the lease, where that holds for it: also
    /// when neither this daemon nor the shim is there. Blocks.
    pub(super) fn watch_lease(&self, cgroup: &Cgroup, init: &CellInit) {
        let fenced = self.is_fenced(cgroup);
        let watched = init.watch_lease(fenced.then_some(&self.lease_file));
        if let Err(error) = watched {
            let group = cgroup.path().display();
            tracing::warn!(%group, %error, "init does not watch the lease: the shim alone holds it");
        }
    }

    /// Moves the end of the lease, in the shim where there is one or needs to
    /// be one. Blocks.
    pub(crate) fn set_lease(&self, lease: Lease) -> Result<()> {
        let needed = {
            let mut fence = lock(&self.fence);
            fence.lease = lease;
            !fence.cells.is_empty()
        };
        self.lease_file
            .set(lease)
            .map_err(|error| Error::internal(format!("cannot write the lease: {error}")))?;
        if !needed {
            return Ok(());
        }
        let shim = self.reach()?;
        match shim.set_lease(lease, &self.cgroups.root()) {
            // It died, is stuck, or is of an earlier release. A new one is
            // handed the lease when it is started.
            Err(InitError::Link(_)) => self.replace(&shim).map(drop),
            set => set.map_err(|error| init_error(&error)),
        }
    }

    /// Sends the shim the lease as it is, where one is known. Right after a start
    /// without a shim none is: a new shim would take that for a lease that is
    /// over, and end what ran on. It is started when the lease is read. Blocks.
    fn renew(&self) -> Result<()> {
        let lease = lock(&self.fence).lease;
        if lease == Lease::Unset {
            return Ok(());
        }
        let shim = self.reach()?;
        match blocking(|| shim.set_lease(lease, &self.cgroups.root())) {
            Err(InitError::Link(_)) => self.replace(&shim).map(drop),
            set => set.map_err(|error| init_error(&error)),
        }
    }

    /// Takes over the lease that was set before the daemon started, as far as
    /// the shim knows. Blocks.
    pub(crate) fn adopt_lease(&self) -> Lease {
        let found = CellInit::connect_soon(&self.dir).and_then(|shim| shim.init.lease());
        let found = found.unwrap_or_default();
        lock(&self.fence).lease = found;
        // An init that watches the file from now on knows what the shim does.
        if let Err(error) = self.lease_file.set(found) {
            tracing::error!(%error, "lease found in the shim is not written");
        }
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

    /// Ends a shim that does not answer, permanently, and starts another.
    fn replace(&self, shim: &CellInit) -> Result<Arc<CellInit>> {
        let _ = shim.kill();
        self.forget();
        self.reach()
    }

    /// The shim that runs, or a new one.
    fn reach(&self) -> Result<Arc<CellInit>> {
        let mut current = lock(&self.current);
        if let Some(shim) = &*current {
            return Ok(shim.clone());
        }
        let dir = &self.dir;
        let shim = match CellInit::connect(dir) {
            Ok(shim) => shim,
            Err(_) => {
                let root = self.cgroups.root();
                root.create_plain().map_err(cgroup_error)?;
                let started = CellInit::start_shim(&self.image, dir, &root)
                    .map_err(|error| Error::internal(error.to_string()))?;
                let lease = lock(&self.fence).lease;
                started
                    .init
                    .set_lease(lease, &root)
                    .map_err(|error| init_error(&error))?;
                started
            }
        };
        let shim = Arc::new(shim.init);
        *current = Some(shim.clone());
        Ok(shim)
    }

    fn forget(&self) {
        lock(&self.current).take();
    }

    /// Ends the shim and removes what it stood on.
    pub(crate) fn release(&self) {
        self.forget();
        let released = blocking(|| {
            if let Ok(shim) = CellInit::connect(&self.dir) {
                shim.init
                    .kill()
                    .map_err(|error| Error::internal(error.to_string()))?;
            }
            self.cgroups.remove_all().map_err(cgroup_error)
        });
        if let Err(error) = released {
            tracing::warn!(%error, "shim not released");
        }
    }
}
