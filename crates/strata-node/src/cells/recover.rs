//! After a restart: what was there is found again, what was half made or
//! half removed is cleared away.
//!
//! A folder with a record is a cell; its init is reached by its socket, and
//! where nobody answers the cell is dead until something is started in it. A
//! folder without a record never came to be, or was on its way out. A cgroup
//! without a folder is nobody's.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use strata_cell::{CellInit, RunRecord, RunState, StartedInit};
use strata_types::{CellName, Error, Result};

use super::cell::CellFile;
use super::executable::{Asked, Executable, RunView};
use super::{Cell, Cells, Phase, Shared, cgroup_error};
use crate::blocking::blocking;

impl Cells {
    /// Finds all cells again.
    pub(crate) async fn recover(shared: Arc<Shared>) -> Result<Self> {
        let cells = Self::new(shared.clone());
        for found in blocking(|| find(&shared)) {
            cells.adopt(found).await?;
        }
        let known: Vec<String> = cells
            .list(None)
            .iter()
            .map(|cell| cell.spec.name.labels()[0].to_string())
            .collect();
        blocking(|| clear_orphans(&shared, &known))?;
        Ok(cells)
    }

    async fn adopt(&self, found: Found) -> Result<()> {
        let name = found.file.spec.name.clone();
        let cell = Arc::new(Cell::recovered(found.file, &self.shared));
        let is_alive = found.init.is_some();
        for run in found.runs {
            cell.adopt_run(run);
        }
        if let Some(init) = found.init {
            cell.adopt_init(init)?;
        }
        cell.set_phase(Phase::Ready);
        if !is_alive {
            cell.set_phase(Phase::Dead(
                "its init ended while the daemon was away".into(),
            ));
        }
        for run in cell
            .runs()
            .into_iter()
            .filter(|run| !found.running.contains(&run.run))
        {
            cell.conclude(&run);
        }
        tracing::info!(cell = %name, is_alive, running = found.running.len(), "found again");
        self.table().cells.insert(name, cell);
        Ok(())
    }
}

struct Found {
    file: CellFile,
    init: Option<StartedInit>,
    runs: Vec<Executable>,
    /// Runs that the init says are alive.
    running: Vec<u64>,
}

/// All cells on disk, outermost first.
fn find(shared: &Shared) -> Vec<Found> {
    let mut all = Vec::new();
    find_in(shared, None, &shared.folder.cells(), &mut all);
    all
}

fn find_in(shared: &Shared, parent: Option<&CellName>, folder: &Path, all: &mut Vec<Found>) {
    for label in subfolders(folder) {
        let path = folder.join(&label);
        let text = parent.map_or_else(|| label.clone(), |parent| format!("{parent}/{label}"));
        let Ok(name) = text.parse::<CellName>() else {
            continue;
        };
        match CellFile::read(&path) {
            Ok(Some(file)) if file.spec.name == name => {
                all.push(look_at(shared, file, &path));
                find_in(shared, Some(&name), &path.join("cells"), all);
            }
            _ => {
                if let Err(error) = clear(shared, &name, &path) {
                    tracing::error!(cell = %name, %error, "a half-made cell could not be cleared");
                }
            }
        }
    }
}

fn look_at(shared: &Shared, file: CellFile, folder: &Path) -> Found {
    let name = &file.spec.name;
    let init = CellInit::connect(folder)
        .inspect_err(|error| tracing::warn!(cell = %name, %error, "its init is not there"))
        .ok();
    let pids = init
        .as_ref()
        .and_then(|init| init.init.runs().ok())
        .unwrap_or_default();
    let mut runs = Vec::new();
    for number in subfolders(&folder.join("runs")) {
        let path = folder.join("runs").join(&number);
        let pid = |run: u64| pids.iter().find(|(r, _)| *r == run).map(|(_, pid)| *pid);
        match number
            .parse()
            .ok()
            .and_then(|run| look_at_run(shared, name, &path, run, pid(run)))
        {
            Some(run) => runs.push(run),
            // It never started: its folder says nothing to anybody.
            None => clear_run(shared, name, &number, &path),
        }
    }
    Found {
        init,
        runs,
        running: pids.into_iter().map(|(run, _)| run).collect(),
        file,
    }
}

fn look_at_run(
    shared: &Shared,
    cell: &CellName,
    folder: &Path,
    run: u64,
    pid: Option<i32>,
) -> Option<Executable> {
    let (asked, record) = RunRecord::read_whole::<Asked>(folder).ok()?;
    if record.state == RunState::New && pid.is_none() {
        return None;
    }
    let group = shared.cgroups.cell(cell).run(run).ok()?;
    if let Some(pid) = pid.filter(|pid| *pid != record.pid) {
        let _ = RunRecord::write_pid(folder, pid);
    }
    let view = RunView::running(record.started_ns);
    let pid = pid.unwrap_or(record.pid);
    Some(Executable::new(
        asked,
        run,
        pid,
        folder.to_owned(),
        group,
        view,
    ))
}

/// Removes what is left of a run that never started.
fn clear_run(shared: &Shared, cell: &CellName, number: &str, folder: &Path) {
    let group = number
        .parse()
        .ok()
        .and_then(|run| shared.cgroups.cell(cell).run(run).ok());
    if let Some(Err(error)) = group.map(|group| group.remove()) {
        tracing::warn!(%cell, %error, "the group of a run that never started stays");
    }
    let _ = fs::remove_dir_all(folder);
}

/// Removes what is left of a cell that is not whole.
fn clear(shared: &Shared, name: &CellName, folder: &Path) -> Result<()> {
    tracing::info!(cell = %name, "clearing what is left of a cell that is not whole");
    shared
        .cgroups
        .cell(name)
        .remove_tree()
        .map_err(cgroup_error)?;
    fs::remove_dir_all(folder).map_err(|error| Error::internal(error.to_string()))
}

/// Removes cgroups that no cell stands for.
fn clear_orphans(shared: &Shared, known: &[String]) -> Result<()> {
    for name in shared.cgroups.outermost() {
        if known.contains(&name) {
            continue;
        }
        if let Ok(name) = name.parse::<CellName>() {
            tracing::info!(cell = %name, "clearing a cgroup without a cell");
            shared
                .cgroups
                .cell(&name)
                .remove_tree()
                .map_err(cgroup_error)?;
        }
    }
    Ok(())
}

fn subfolders(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
