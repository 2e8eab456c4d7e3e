//! After a restart: what was there is found again, what was half made or
//! half removed is cleared away.
//!
//! A directory with a record is a cell; its init is reached by its socket.
//! Where no init listens the cell is dead until something is started in it; one
//! that listens and does not answer is tried again. A directory without a
//! record never came to be, or was on its way out. A record that cannot be read
//! is left as it is, and logged. A cgroup without a directory has no owner.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use strata_cell::{CellInit, InitError, RunRecord, RunState, StartedInit};
use strata_types::{CellName, Error, Result};

use super::cell::CellFile;
use super::executable::{Executable, RunParameters, RunView};
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

    fn adopt(&self, found: FoundCell) -> Result<()> {
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
                tracing::warn!(cell = %name, "cell recovered; its init does not answer yet");
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
        tracing::info!(cell = %name, state, running = running.len(), "cell recovered");
        self.table().cells.insert(name, cell);
        Ok(())
    }
}

struct FoundCell {
    file: CellFile,
    init: Init,
    runs: Vec<Executable>,
}

enum Init {
    /// It answers, and reports that these runs are alive.
    Reached(StartedInit, Vec<u64>),
    /// It is there, and does not answer.
    Silent,
    /// It is not there.
    Nobody,
}

/// All cells on disk, outermost first, and the names of all outermost directories
/// that are left.
fn find(shared: &Shared) -> Result<(Vec<FoundCell>, Vec<String>)> {
    let mut all = Vec::new();
    let dir = shared.dir.cells();
    let failed = |e| Error::internal(format!("cannot read {}: {e}", dir.display()));
    find_in(shared, None, &dir, &mut all).map_err(failed)?;
    Ok((all, subdirs(&dir).map_err(failed)?))
}

fn find_in(
    shared: &Shared,
    parent: Option<&CellName>,
    dir: &Path,
    all: &mut Vec<FoundCell>,
) -> io::Result<()> {
    for label in subdirs(dir)? {
        let path = dir.join(&label);
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
                    tracing::error!(cell = %name, %error, "incomplete cell not removed");
                }
            }
            Ok(Some(_)) => {
                tracing::error!(cell = %name, "cell record names another cell; left unchanged");
            }
            Err(error) => {
                tracing::error!(cell = %name, %error, "cell record not readable; left unchanged");
            }
        }
    }
    Ok(())
}

fn look_at(shared: &Shared, file: CellFile, dir: &Path) -> io::Result<FoundCell> {
    let name = &file.spec.name;
    let (init, pids) = reach(name, dir);
    let mut runs = Vec::new();
    for name_of_run in subdirs(dir)? {
        let Some(number) = name_of_run.strip_prefix("run-") else {
            continue;
        };
        let path = dir.join(&name_of_run);
        let pid = |run: u64| pids.iter().find(|(r, _)| *r == run).map(|(_, pid)| *pid);
        match number
            .parse()
            .ok()
            .and_then(|run| look_at_run(shared, name, &path, run, pid(run)))
        {
            Some(run) => runs.push(run),
            // It never started: its directory holds nothing that a reader could
            // use.
            None if !matches!(init, Init::Silent) => clear_run(shared, name, number, &path),
            None => {}
        }
    }
    Ok(FoundCell { init, runs, file })
}

/// Reaches a cell's init, and requests the pids of its runs.
fn reach(name: &CellName, dir: &Path) -> (Init, Vec<(u64, i32)>) {
    let failed = match CellInit::connect_soon(dir) {
        Ok(started) => match started.init.runs() {
            Ok(pids) => {
                let running = pids.iter().map(|(run, _)| *run).collect();
                return (Init::Reached(started, running), pids);
            }
            Err(error) => error.into(),
        },
        Err(error) => error,
    };
    tracing::warn!(cell = %name, error = %failed, "cell init unreachable");
    match failed {
        InitError::Link(error) if !error.is_nobody() => (Init::Silent, Vec::new()),
        _ => (Init::Nobody, Vec::new()),
    }
}

fn look_at_run(
    shared: &Shared,
    cell: &CellName,
    dir: &Path,
    run: u64,
    pid: Option<i32>,
) -> Option<Executable> {
    let (asked, record) = RunRecord::read_whole::<RunParameters>(dir).ok()?;
    if record.state == RunState::New && pid.is_none() {
        return None;
    }
    let group = shared.cgroups.cell(cell).run(run).ok()?;
    if let Some(pid) = pid.filter(|pid| *pid != record.pid) {
        let _ = RunRecord::write_pid(dir, pid);
    }
    let view = RunView::running(record.started_ns);
    let pid = pid.unwrap_or(record.pid);
    let found = Executable::new(asked, run, pid, dir.to_owned(), group, view);
    if record.told_to_end {
        found.set_told_to_end();
    }
    Some(found)
}

/// Removes what is left of a run that never started.
fn clear_run(shared: &Shared, cell: &CellName, number: &str, dir: &Path) {
    let group = number
        .parse()
        .ok()
        .and_then(|run| shared.cgroups.cell(cell).run(run).ok());
    if let Some(Err(error)) = group.map(|group| group.remove()) {
        tracing::warn!(%cell, %error, "cgroup of a run that never started not removed");
    }
    let _ = fs::remove_dir_all(dir);
}

/// Removes what is left of a cell that is not whole.
fn clear(shared: &Shared, name: &CellName, dir: &Path) -> Result<()> {
    tracing::info!(cell = %name, "removing an incomplete cell");
    shared
        .cgroups
        .cell(name)
        .remove_tree()
        .map_err(cgroup_error)?;
    fs::remove_dir_all(dir).map_err(|error| Error::internal(error.to_string()))
}

/// Removes cgroups that no cell stands for.
fn clear_orphans(shared: &Shared, known: &[String]) -> Result<()> {
    for name in shared.cgroups.outermost() {
        if known.contains(&name) {
            continue;
        }
        if let Ok(name) = name.parse::<CellName>() {
            tracing::info!(cell = %name, "removing an orphaned cgroup");
            shared
                .cgroups
                .cell(&name)
                .remove_tree()
                .map_err(cgroup_error)?;
        }
    }
    Ok(())
}

/// The directories in a directory; none in one that is not there.
fn subdirs(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
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
