//! The keeper: the init that starts outermost cells. It is found again after
//! a restart of the daemon, and replaced when it has died; cells whose keeper
//! died live on.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use strata_cell::{CellInit, Cgroup, Cgroups, InitError, StartedInit};
use strata_types::{CellSpec, Error, Result};

use super::Shared;
use super::error::{cgroup_error, init_error};
use crate::blocking::blocking;

/// A way to the keeper, which is there once it is needed.
pub(crate) struct Keeper {
    folder: PathBuf,
    cgroups: Cgroups,
    current: Mutex<Option<Arc<CellInit>>>,
}

impl Keeper {
    /// The keeper whose socket is in `folder`, in the outermost of `cgroups`.
    pub(crate) fn new(folder: PathBuf, cgroups: Cgroups) -> Self {
        Self {
            folder,
            cgroups,
            current: Mutex::default(),
        }
    }

    /// Starts a cell's init under the keeper. Blocks.
    pub(super) fn start_cell(
        &self,
        shared: &Shared,
        spec: &CellSpec,
        cgroup: &Cgroup,
    ) -> Result<StartedInit> {
        let folder = shared.folder.cell(&spec.name);
        let start = |keeper: &CellInit| keeper.start_cell(&shared.image, spec, &folder, cgroup);
        let keeper = self.reach(shared)?;
        match start(&keeper) {
            Err(InitError::Link(_)) => {
                // Gone or stuck; either way it is ended for good and reaped.
                let _ = keeper.kill();
                self.forget();
                start(&*self.reach(shared)?).map_err(|error| init_error(&error))
            }
            started => started.map_err(|error| init_error(&error)),
        }
    }

    /// The keeper that runs, or a new one.
    fn reach(&self, shared: &Shared) -> Result<Arc<CellInit>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keeper) = &*current {
            return Ok(keeper.clone());
        }
        let folder = &self.folder;
        let keeper = match CellInit::connect(folder) {
            Ok(keeper) => keeper,
            Err(_) => {
                let root = self.cgroups.root();
                root.create_plain().map_err(cgroup_error)?;
                CellInit::start_keeper(&shared.image, folder, &root)
                    .map_err(|error| Error::internal(error.to_string()))?
            }
        };
        let keeper = Arc::new(keeper.init);
        *current = Some(keeper.clone());
        Ok(keeper)
    }

    fn forget(&self) {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    /// Ends the keeper and removes what it stood on.
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
