//! One cell: how it comes to be, its init, its end. What runs in it is in
//! `runs.rs`.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use strata_cell::{CellInit, Cgroup, StartedInit, Usage, create_record, read_record};
use strata_types::{CellName, CellSpec, Error, Result};
use tokio::sync::watch;

use super::error::{cgroup_error, init_error};
use super::kills::AccountedKills;
use super::run_table::RunTable;
use super::{Cells, Phase, Shared, WeakCells, being_freed};
use crate::blocking::blocking;
use crate::clock::now_ms;
use crate::node_dir::make_private;

/// What is kept of a cell. Written when the cell is whole: a directory without
/// it is what is left of a cell that never came to be.
#[derive(Serialize, Deserialize)]
pub(super) struct CellFile {
    pub(super) spec: CellSpec,
    pub(super) allocated_at_ms: i64,
}

impl CellFile {
    pub(super) fn read(dir: &std::path::Path) -> io::Result<Option<Self>> {
        read_record(&dir.join("cell.json"))
    }
}

pub(crate) struct Cell {
    pub(crate) spec: CellSpec,
    weak_cells: WeakCells,
    pub(super) dir: PathBuf,
    pub(super) cgroup: Cgroup,
    allocated_at_ms: Mutex<i64>,
    phase: watch::Sender<Phase>,
    pub(super) init: Mutex<Option<Arc<CellInit>>>,
    /// Goes up when the init is ended on purpose: a task that listened to it
    /// reports nothing about the next one.
    pub(super) epoch: AtomicU64,
    pub(super) runs: Mutex<RunTable>,
    /// Kills for want of memory that have been put down to some run.
    pub(super) accounted_kills: Mutex<AccountedKills>,
    /// Held while a run or the init is started: one at a time.
    pub(super) starting: tokio::sync::Mutex<()>,
    /// Held while the cell is removed.
    removing: tokio::sync::Mutex<()>,
}

pub(super) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error of the machine: not the caller's fault, but a full disk can be
/// freed.
pub(super) fn internal(what: &str, error: impl std::error::Error + 'static) -> Error {
    let error: &(dyn std::error::Error + 'static) = &error;
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let text = format!("cannot {what}: {error}");
    match kind {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            Error::exhausted(text).with_hint("make room on the disk of the data directory")
        }
        Some(io::ErrorKind::TimedOut) => Error::unavailable(text),
        _ => Error::internal(text),
    }
}

impl Cell {
    pub(super) fn new(spec: CellSpec, cells: &Cells) -> Self {
        let shared = &cells.shared;
        Self {
            dir: shared.dir.cell(&spec.name),
            cgroup: shared.cgroups.cell(&spec.name),
            spec,
            weak_cells: cells.weak_cells(),
            allocated_at_ms: Mutex::new(now_ms()),
            phase: watch::Sender::new(Phase::Allocating),
            init: Mutex::default(),
            epoch: AtomicU64::new(0),
            runs: Mutex::default(),
            accounted_kills: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
            removing: tokio::sync::Mutex::default(),
        }
    }

    /// A cell found on disk after a restart, with its init if that lives.
    pub(super) fn recovered(file: CellFile, cells: &Cells) -> Self {
        let cell = Self::new(file.spec, cells);
        *guard(&cell.allocated_at_ms) = file.allocated_at_ms;
        cell
    }

    pub(crate) fn allocated_at_ms(&self) -> i64 {
        *guard(&self.allocated_at_ms)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub(super) fn set_phase(&self, next: Phase) -> bool {
        self.phase.send_if_modified(|phase| {
            let may = phase.may_become(&next);
            if may {
                *phase = next;
            }
            may
        })
    }

    /// Whether nothing comes into it any more.
    pub(super) fn is_going(&self) -> bool {
        matches!(self.phase(), Phase::Freeing | Phase::Gone)
    }

    pub(super) fn begin_freeing(&self) {
        self.set_phase(Phase::Freeing);
    }

    /// The phase, once the cell is no longer being made.
    pub(super) async fn settled(&self) -> Phase {
        let mut phase = self.phase.subscribe();
        match phase.wait_for(|phase| *phase != Phase::Allocating).await {
            Ok(phase) => phase.clone(),
            Err(_) => Phase::Gone,
        }
    }

    pub(crate) fn init_pid(&self) -> i64 {
        guard(&self.init)
            .as_ref()
            .map_or(0, |init| init.pid().into())
    }

    pub(crate) fn usage(&self) -> Usage {
        self.cgroup.usage()
    }

    /// What those inside may see of its control group; see [`Cgroup::shown`].
    pub(crate) fn shown_groups(&self) -> Vec<(&'static str, PathBuf)> {
        self.cgroup.shown()
    }

    pub(super) fn shared(&self) -> Result<Arc<Shared>> {
        self.weak_cells
            .shared()
            .ok_or_else(|| Error::unavailable("the node is shutting down"))
    }

    /// All cells of its kind; none when the daemon ends.
    pub(super) fn upgrade_cells(&self) -> Option<Cells> {
        self.weak_cells.upgrade()
    }

    /// Makes the cell: directory, cgroup, init, record. On failure all of it is
    /// taken away again.
    pub(super) fn build(self: &Arc<Self>, parent: Option<&Self>) -> Result<()> {
        if let Err(error) = blocking(|| self.make(parent)) {
            if let Err(left) = blocking(|| self.take_away()) {
                tracing::error!(cell = %self.spec.name, %left, "failed cell not cleaned up");
            }
            return Err(error);
        }
        self.set_phase(Phase::Ready);
        tracing::info!(cell = %self.spec.name, "cell allocated");
        Ok(())
    }

    fn make(self: &Arc<Self>, parent: Option<&Self>) -> Result<()> {
        make_private(&self.dir).map_err(|e| internal("make the cell's directory", e))?;
        let started = self.start_init(parent)?;
        self.adopt_init(started)?;
        let file = CellFile {
            spec: self.spec.clone(),
            allocated_at_ms: self.allocated_at_ms(),
        };
        create_record(&self.dir.join("cell.json"), &file)
            .map_err(|e| internal("write the cell's record", e))
    }

    /// Gives a cell whose init died a new one.
    pub(super) async fn restart_init(self: &Arc<Self>, parent: Option<Arc<Self>>) -> Result<()> {
        let _starting = self.starting.lock().await;
        match self.phase() {
            Phase::Dead(_) => {}
            Phase::Ready => return Ok(()),
            _ => return Err(being_freed(&self.spec.name)),
        }
        blocking(|| {
            self.cgroup.remove_tree().map_err(cgroup_error)?;
            let started = self.start_init(parent.as_deref())?;
            self.adopt_init(started)
        })?;
        self.set_phase(Phase::Ready);
        tracing::info!(cell = %self.spec.name, "cell init restarted");
        Ok(())
    }

    fn start_init(&self, parent: Option<&Self>) -> Result<StartedInit> {
        let shared = self.shared()?;
        self.cgroup.create(&self.spec).map_err(cgroup_error)?;
        match parent {
            None => shared.shim.start_cell(&shared, &self.spec, &self.cgroup),
            Some(parent) => parent
                .init()?
                .start_cell(&shared.image, &self.spec, &self.dir, &self.cgroup)
                .map_err(|error| {
                    let full = error.is_out_of_processes();
                    let full = full.then(|| parent.full_of_processes()).flatten();
                    full.unwrap_or_else(|| init_error(&error))
                }),
        }
    }

    /// Which cell, this one or one around it, has all the processes that its
    /// `pids_max` allows.
    pub(super) fn full_of_processes(&self) -> Option<Error> {
        let shared = self.shared().ok()?;
        let around = std::iter::successors(Some(self.spec.name.clone()), CellName::parent);
        let limited = around.filter_map(|name| {
            let (most, now) = shared.cgroups.cell(&name).pids()?;
            Some((name, most, now))
        });
        let limited: Vec<_> = limited.collect();
        let full = limited.iter().find(|(_, most, now)| now >= most);
        let (name, most, now) = full.or(limited.first())?;
        let why = format!(
            "cell {:?} has {now} processes and threads, and its limit pids_max is {most}",
            name.to_string()
        );
        Some(Error::exhausted(why).with_hint("stop some, or allocate it with a higher pids_max"))
    }

    pub(crate) fn init(&self) -> Result<Arc<CellInit>> {
        guard(&self.init).clone().ok_or_else(|| {
            Error::unavailable(format!(
                "the init of cell {:?} does not answer",
                self.spec.name.to_string()
            ))
        })
    }

    /// Ends the init and takes the cgroup away; the record and the logs stay.
    pub(super) async fn halt(self: &Arc<Self>) -> Result<()> {
        let _starting = self.starting.lock().await;
        self.epoch.fetch_add(1, Ordering::Relaxed);
        let init = guard(&self.init).take();
        self.set_phase(Phase::Dead("it was halted".into()));
        blocking(|| {
            if let Some(init) = init {
                init.kill()
                    .map_err(|e| internal("end the cell's init", e))?;
            }
            self.cgroup.remove_tree().map_err(cgroup_error)
        })?;
        for run in self.runs() {
            self.conclude(&run);
        }
        Ok(())
    }

    /// Removes the cell: its record first, so that a death in the middle is
    /// finished after the restart.
    pub(super) async fn remove(self: &Arc<Self>) -> Result<()> {
        let _removing = self.removing.lock().await;
        if self.phase() == Phase::Gone {
            return Ok(());
        }
        blocking(|| self.take_away())?;
        // Still under the lock: a task that waits for it must not remove a new
        // cell of the same name.
        self.set_phase(Phase::Gone);
        tracing::info!(cell = %self.spec.name, "cell freed");
        Ok(())
    }

    fn take_away(&self) -> Result<()> {
        remove_file(&self.dir.join("cell.json"))
            .map_err(|e| internal("remove the cell's record", e))?;
        // Out of the lock: others request the init while this one waits.
        let init = guard(&self.init).take();
        if let Some(init) = init {
            init.kill()
                .map_err(|e| internal("end the cell's init", e))?;
        }
        self.cgroup.remove_tree().map_err(cgroup_error)?;
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(internal("remove the cell's directory", error))
            }
            _ => Ok(()),
        }
    }
}

fn remove_file(path: &std::path::Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
