//! After a restart: what was there is found again, what was half made or
//! half removed is cleared away.
//!
//! A folder with a record is a cell; its init is reached by its socket. Where
//! nobody listens the cell is dead until something is started in it; one that
//! listens and does not answer is tried again. A folder without a record never
//! came to be, or was on its way out. A record that cannot be read is left as
//! it is, and said. A cgroup without a folder is nobody's.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use strata_cell::{CellInit, InitError, RunRecord, RunState, StartedInit};
use strata_types::{CellName, Error, Result};

use super::cell::CellFile;
use super::executable::{Asked, Executable, RunView};
use super::{Cell, Cells, Phase, Shared, cgroup_error};
use crate::blocking::blocking;

impl Cells {
    /// Finds all cells again.
    pub(crate) async fn recover(shared: Arc<Shared>) -> Result<Self> {
        let cells = Self::new(shared.clone());
        let (found, labels) = blocking(|| find(&shared))?;
        for found in found {
            cells.adopt(found)?;
        }
        blocking(|| clear_orphans(&shared, &labels))?;
        Ok(cells)
    }

    fn adopt(&self, found: Found) -> Result<()> {
        let name = found.file.spec.name.clone();
        let cell = Arc::new(Cell::recovered(found.file, self));
        for run in found.runs {
            cell.adopt_run(run);
        }
        cell.set_phase(Phase::Ready);
        let (state, running) = match found.init {
            Init::Reached(init, running) => {
                cell.adopt_init(init)?;
                ("alive", running)
            }
            Init::Silent => {
                cell.await_init();
                self.table().cells.insert(name.clone(), cell);
                tracing::warn!(cell = %name, "found again; its init does not answer yet");
                return Ok(());
            }
            Init::Nobody => {
                let why = "its init ended while the daemon was away";
                cell.set_phase(Phase::Dead(why.into()));
                ("dead", Vec::new())
            }
        };
        for run in cell.runs() {
            if !running.contains(&run.run) {
                cell.conclude(&run);
            }
        }
        tracing::info!(cell = %name, state, running = running.len(), "found again");
        self.table().cells.insert(name, cell);
        Ok(())
    }
}

struct Found {
    file: CellFile,
    init: Init,
    runs: Vec<Executable>,
}

enum Init {
    /// It answers, and says that these runs are alive.
    Reached(StartedInit, Vec<u64>),
    /// It is there, and does not answer.
    Silent,
    /// It is not there.
    Nobody,
}

/// All cells on disk, outermost first, and the names of all outermost folders
/// that are left.
fn find(shared: &Shared) -> Result<(Vec<Found>, Vec<String>)> {
    let mut all = Vec::new();
    let folder = shared.folder.cells();
    let failed = |e| Error::internal(format!("cannot read {}: {e}", folder.display()));
    find_in(shared, None, &folder, &mut all).map_err(failed)?;
    Ok((all, subfolders(&folder).map_err(failed)?))
}

fn find_in(
    shared: &Shared,
    parent: Option<&CellName>,
    folder: &Path,
    all: &mut Vec<Found>,
) -> io::Result<()> {
    for label in subfolders(folder)? {
        let path = folder.join(&label);
        let text = parent.map_or_else(|| label.clone(), |parent| format!("{parent}/{label}"));
        let Ok(name) = text.parse::<CellName>() else {
            continue;
        };
        match CellFile::read(&path) {
            Ok(Some(file)) if file.spec.name == name => {
                all.push(look_at(shared, file, &path)?);
                find_in(shared, Some(&name), &path.join("cells"), all)?;
            }
            Ok(None) => {
                if let Err(error) = clear(shared, &name, &path) {
                    tracing::error!(cell = %name, %error, "a half-made cell could not be cleared");
                }
            }
            Ok(Some(_)) => {
                tracing::error!(cell = %name, "its record names another cell; it is left alone");
            }
            Err(error) => {
                tracing::error!(cell = %name, %error, "its record cannot be read; it is left alone");
            }
        }
    }
    Ok(())
}

fn look_at(shared: &Shared, file: CellFile, folder: &Path) -> io::Result<Found> {
    let name = &file.spec.name;
    let (init, pids) = reach(name, folder);
    let mut runs = Vec::new();
    for name_of_run in subfolders(folder)? {
        let Some(number) = name_of_run.strip_prefix("run-") else {
            continue;
        };
        let path = folder.join(&name_of_run);
        let pid = |run: u64| pids.iter().find(|(r, _)| *r == run).map(|(_, pid)| *pid);
        match number
            .parse()
            .ok()
            .and_then(|run| look_at_run(shared, name, &path, run, pid(run)))
        {
            Some(run) => runs.push(run),
            // It never started: its folder says nothing to anybody.
            None if !matches!(init, Init::Silent) => clear_run(shared, name, number, &path),
            None => {}
        }
    }
    Ok(Found { init, runs, file })
}

/// Reaches a cell's init, and asks for the pids of its runs.
fn reach(name: &CellName, folder: &Path) -> (Init, Vec<(u64, i32)>) {
    let failed = match CellInit::connect_soon(folder) {
        Ok(started) => match started.init.runs() {
            Ok(pids) => {
                let running = pids.iter().map(|(run, _)| *run).collect();
                return (Init::Reached(started, running), pids);
            }
            Err(error) => error.into(),
        },
        Err(error) => error,
    };
    tracing::warn!(cell = %name, error = %failed, "its init was not reached");
    match failed {
        InitError::Link(error) if !error.is_nobody() => (Init::Silent, Vec::new()),
        _ => (Init::Nobody, Vec::new()),
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
    let found = Executable::new(asked, run, pid, folder.to_owned(), group, view);
    if record.told_to_end {
        found.set_told_to_end();
    }
    Some(found)
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

/// The folders in a folder; none in one that is not there.
fn subfolders(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}
