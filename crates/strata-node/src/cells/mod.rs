//! All cells of the node: a table of them, and the rules of the tree they
//! form. What happens inside one cell is [`cell::Cell`]'s.

mod cell;
mod error;
mod executable;
mod freed;
mod init_events;
mod kills;
mod phase;
mod recover;
mod run_table;
mod runs;
mod shim;
mod supervise;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use strata_cell::{Cgroups, InitImage, LogLimits};
use strata_tasks::TaskGroup;
use strata_types::{CellName, CellSpec, Error, ExecutableName, ExecutableSpec, Result};

pub(crate) use cell::Cell;
use error::cgroup_error;
pub(crate) use executable::{Executable, RunView};
pub(crate) use freed::FreedNames;
pub(crate) use phase::Phase;
pub(crate) use runs::{LaunchOptions, owner_on_host};
pub(crate) use shim::Shim;
pub(crate) use supervise::Supervisor;

use crate::blocking::blocking;
use crate::node_dir::NodeDir;

/// How long executables get to end when the daemon ends and they go along.
const LAST_GRACE: Duration = Duration::from_secs(3);

/// What all cells share.
pub(crate) struct Shared {
    pub(crate) dir: NodeDir,
    pub(crate) cgroups: Cgroups,
    pub(crate) image: Arc<InitImage>,
    pub(crate) shim: Arc<Shim>,
    pub(crate) logs: LogLimits,
    pub(crate) supervisor: Supervisor,
    pub(crate) tasks: TaskGroup,
}

/// All cells of a node. Cheap to clone.
#[derive(Clone)]
pub struct Cells {
    shared: Arc<Shared>,
    table: Arc<Mutex<Table>>,
}

/// The way of a cell back to all of them, which does not keep them alive.
pub(crate) struct WeakCells {
    shared: Weak<Shared>,
    table: Weak<Mutex<Table>>,
}

impl WeakCells {
    fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.upgrade()
    }

    fn upgrade(&self) -> Option<Cells> {
        Some(Cells {
            shared: self.shared.upgrade()?,
            table: self.table.upgrade()?,
        })
    }
}

struct Table {
    cells: BTreeMap<CellName, Arc<Cell>>,
    freed: FreedNames,
}

impl Cells {
    /// Has the shim end a cell with the lease of this node, or not; also one
    /// that is started later.
    pub(crate) fn set_fenced(&self, name: &CellName, fenced: bool) -> Result<()> {
        let cgroup = self.shared.cgroups.cell(name);
        let shim = &self.shared.shim;
        let changed = shim.set_fenced(&cgroup, fenced)?;
        let cell = self.table().cells.get(name).cloned();
        if changed
            && let Some(cell) = cell
            && let Ok(init) = cell.init()
        {
            blocking(|| shim.watch_lease(&cgroup, &init));
        }
        Ok(())
    }

    fn new(shared: Arc<Shared>) -> Self {
        let freed = FreedNames::open(shared.dir.freed());
        let table = Table {
            cells: BTreeMap::new(),
            freed,
        };
        Self {
            shared,
            table: Arc::new(Mutex::new(table)),
        }
    }

    fn weak_cells(&self) -> WeakCells {
        WeakCells {
            shared: Arc::downgrade(&self.shared),
            table: Arc::downgrade(&self.table),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether cells are made with cgroup v2.
    pub fn is_cgroup_v2(&self) -> bool {
        self.shared.cgroups.is_v2()
    }

    /// Makes a cell. A repeated request for the same one is fine.
    pub(crate) async fn allocate(&self, spec: CellSpec) -> Result<()> {
        loop {
            let (cell, is_new) = self.reserve(&spec)?;
            if is_new {
                return self.build(cell).await;
            }
            match cell.settled().await {
                Phase::Ready => return Ok(()),
                Phase::Dead(_) => return self.restart_init(&cell).await,
                Phase::Freeing => return Err(being_freed(&spec.name)),
                // The other caller's attempt failed; ours may not.
                Phase::Gone | Phase::Allocating => {}
            }
        }
    }

    /// Finds the cell, or puts a new one in its place.
    fn reserve(&self, spec: &CellSpec) -> Result<(Arc<Cell>, bool)> {
        let mut table = self.table();
        let known = table.cells.get(&spec.name);
        if let Some(cell) = known.filter(|cell| cell.phase() != Phase::Gone) {
            if cell.phase() == Phase::Freeing {
                return Err(being_freed(&spec.name));
            }
            if cell.spec != *spec {
                return Err(Error::already_exists(format!(
                    "cell {:?} is allocated already, with other settings",
                    spec.name.to_string()
                ))
                .in_field("cell.name")
                .with_hint("free it first, or allocate with the settings it has"));
            }
            return Ok((cell.clone(), false));
        }
        if let Some(parent) = spec.name.parent() {
            table.require_parent(&parent)?;
        }
        let cell = Arc::new(Cell::new(spec.clone(), self));
        table.cells.insert(spec.name.clone(), cell.clone());
        Ok((cell, true))
    }

    /// Makes what a reserved cell needs; takes the reservation back on failure.
    async fn build(&self, cell: Arc<Cell>) -> Result<()> {
        let built = match self.parent_of(&cell).await {
            Ok(parent) => cell.build(parent.as_deref()),
            Err(error) => Err(error),
        };
        if built.is_err() {
            self.table().cells.remove(&cell.spec.name);
            cell.set_phase(Phase::Gone);
        }
        built
    }

    async fn restart_init(&self, cell: &Arc<Cell>) -> Result<()> {
        let parent = self.parent_of(cell).await?;
        cell.restart_init(parent).await
    }

    /// The cell around, alive; none for an outermost cell.
    async fn parent_of(&self, cell: &Cell) -> Result<Option<Arc<Cell>>> {
        let Some(name) = cell.spec.name.parent() else {
            return Ok(None);
        };
        let parent = self.find("cell_name", &name)?;
        if matches!(parent.settled().await, Phase::Dead(_)) {
            Box::pin(self.restart_init(&parent)).await?;
        }
        Ok(Some(parent))
    }

    /// Stops all that runs in a cell and in those inside it, and removes them.
    pub(crate) async fn free(&self, name: &CellName, grace: Option<Duration>) -> Result<()> {
        if !self.table().cells.contains_key(name) {
            return match self.table().freed.contains(name) {
                true => Ok(()),
                false => Err(unknown_cell("cell_name", name)),
            };
        }
        // Until all are on their way out, more may come in; after that, none.
        let cells = loop {
            let cells = self.table().within(name);
            if cells.iter().all(|cell| cell.is_going()) {
                break cells;
            }
            for cell in &cells {
                cell.settled().await;
                cell.begin_freeing();
            }
        };
        // All stop at once, so that graces run side by side; removal then
        // goes from the innermost outwards.
        let stops = cells.iter().map(async |cell| {
            cell.let_go_of_all().await;
            cell.stop_all(grace).await;
        });
        futures_util::future::join_all(stops).await;
        for cell in cells.iter().rev() {
            // Before its record goes: after a crash in between, recovery clears
            // the rest, and a repeated Free still has to find the name.
            self.table().freed.add(&cell.spec.name);
            cell.remove().await?;
            self.table().forget(cell);
        }
        Ok(())
    }

    /// Starts an executable in this very cell; it reads `input`. Answers its
    /// pid.
    pub(crate) async fn start(
        &self,
        cell: &Arc<Cell>,
        spec: ExecutableSpec,
        input: Option<OwnedFd>,
    ) -> Result<i64> {
        self.ensure_ready(cell).await?;
        cell.start(spec, input).await
    }

    /// Makes a cell be one in which something can be started.
    async fn ensure_ready(&self, cell: &Arc<Cell>) -> Result<()> {
        match cell.settled().await {
            Phase::Ready => Ok(()),
            Phase::Dead(_) => self.restart_init(cell).await,
            _ => Err(being_freed(&cell.spec.name)),
        }
    }

    /// Stops an executable and all that it forked.
    pub(crate) async fn stop(
        &self,
        cell: &CellName,
        name: &ExecutableName,
        grace: Option<Duration>,
    ) -> Result<()> {
        self.find("cell_name", cell)?.stop(name, grace).await
    }

    /// A cell by its name, which came from the field `field`.
    pub(crate) fn find(&self, field: &str, name: &CellName) -> Result<Arc<Cell>> {
        self.table()
            .cells
            .get(name)
            .cloned()
            .ok_or_else(|| unknown_cell(field, name))
    }

    /// The latest run of an executable.
    pub(crate) fn executable(
        &self,
        cell: &CellName,
        name: &ExecutableName,
    ) -> Result<Arc<Executable>> {
        self.find("cell_name", cell)?.executable(name)
    }

    /// The run that has, or last had, this pid.
    pub(crate) fn by_pid(&self, pid: i64) -> Option<Arc<Executable>> {
        let cells: Vec<_> = self.table().cells.values().cloned().collect();
        cells
            .iter()
            .flat_map(|cell| cell.runs())
            .filter(|run| run.pid == pid)
            .max_by_key(|run| run.run)
    }

    /// Every cell, or those at and below one, in the order of their names.
    pub(crate) fn list(&self, under: Option<&CellName>) -> Vec<Arc<Cell>> {
        let table = self.table();
        let wanted = |cell: &&Arc<Cell>| under.is_none_or(|top| cell.spec.name.is_within(top));
        table
            .cells
            .values()
            .filter(wanted)
            .filter(|cell| cell.phase() != Phase::Allocating)
            .cloned()
            .collect()
    }

    /// Frees every cell, as `--stop-workloads` requires, in less time than the
    /// daemon itself has to end. What is supervised comes back with the next
    /// daemon, so its cells are only emptied.
    pub async fn free_all(&self) -> Result<()> {
        let outermost: Vec<_> = self
            .list(None)
            .into_iter()
            .filter(|cell| cell.spec.name.depth() == 1)
            .collect();
        let frees = outermost.iter().map(async |cell| {
            let name = &cell.spec.name;
            let all = self.table().within(name);
            match all.iter().any(|cell| cell.is_kept()) {
                true => rest(&all).await,
                false => self.free(name, Some(LAST_GRACE)).await,
            }
        });
        futures_util::future::join_all(frees)
            .await
            .into_iter()
            .collect()
    }

    /// Makes a cell be there with an init that has started nothing yet: a new
    /// one, or one that was halted.
    pub(crate) async fn ensure(&self, spec: CellSpec) -> Result<Arc<Cell>> {
        let name = spec.name.clone();
        self.allocate(spec).await?;
        self.find("cell_name", &name)
    }

    /// Stops all that runs in a cell and ends its init; what was logged stays.
    /// One that is halted already, or not there, is fine.
    pub(crate) async fn halt(&self, name: &CellName, grace: Option<Duration>) -> Result<()> {
        let known = self.table().cells.get(name).cloned();
        match known {
            Some(cell) => {
                cell.settled().await;
                cell.stop_all(grace).await;
                cell.halt().await
            }
            None => Ok(()),
        }
    }

    /// Whether there is no cell at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.table().cells.is_empty()
    }
}

impl Table {
    fn require_parent(&self, parent: &CellName) -> Result<()> {
        let known = self.cells.get(parent).map(|cell| cell.phase());
        match known {
            Some(Phase::Ready | Phase::Dead(_)) => Ok(()),
            Some(Phase::Freeing) => Err(being_freed(parent)),
            _ => Err(Error::wrong_state(format!(
                "the cell around it, {:?}, is not allocated",
                parent.to_string()
            ))
            .in_field("cell.name")
            .with_hint(format!("allocate {parent} first"))),
        }
    }

    /// A cell and all inside it, outermost first.
    fn within(&self, name: &CellName) -> Vec<Arc<Cell>> {
        self.cells
            .values()
            .filter(|cell| cell.spec.name.is_within(name))
            .cloned()
            .collect()
    }

    /// Takes a cell out, unless another of the same name has taken its place.
    fn forget(&mut self, gone: &Arc<Cell>) {
        let name = &gone.spec.name;
        if self
            .cells
            .get(name)
            .is_some_and(|cell| Arc::ptr_eq(cell, gone))
        {
            self.cells.remove(name);
        }
    }
}

/// Ends all that runs in cells that come back with the next daemon.
async fn rest(cells: &[Arc<Cell>]) -> Result<()> {
    let stops = cells.iter().map(|cell| cell.stop_all(Some(LAST_GRACE)));
    futures_util::future::join_all(stops).await;
    for cell in cells.iter().rev() {
        cell.halt().await?;
    }
    Ok(())
}

fn unknown_cell(field: &str, name: &CellName) -> Error {
    Error::not_found(format!("there is no cell {:?}", name.to_string())).in_field(field)
}

fn being_freed(name: &CellName) -> Error {
    Error::wrong_state(format!("cell {:?} is being freed", name.to_string()))
        .with_hint("try again when it is gone")
}
