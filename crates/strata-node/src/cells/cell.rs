//! One cell: how it comes to be, its init, its end. What runs in it is in
//! `runs.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use strata_cell::{
    CellInit, Cgroup, InitEvent, InitEvents, StartedInit, Usage, create_record, read_record,
};
use strata_types::{CellSpec, Error, ExecutableName, Result};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::error::{cgroup_error, init_error};
use super::executable::Executable;
use super::{Phase, Shared, being_freed};
use crate::blocking::blocking;
use crate::clock::now_ms;
use crate::folder::make_private;

/// What is kept of a cell. Written when the cell is whole: a folder without
/// it is what is left of a cell that never came to be.
#[derive(Serialize, Deserialize)]
pub(super) struct CellFile {
    pub(super) spec: CellSpec,
    pub(super) allocated_at_ms: i64,
}

impl CellFile {
    pub(super) fn read(folder: &std::path::Path) -> io::Result<Option<Self>> {
        read_record(&folder.join("cell.json"))
    }
}

/// One cell.
pub(crate) struct Cell {
    pub(crate) spec: CellSpec,
    shared: Weak<Shared>,
    pub(super) folder: PathBuf,
    pub(super) cgroup: Cgroup,
    allocated_at_ms: Mutex<i64>,
    phase: watch::Sender<Phase>,
    init: Mutex<Option<Arc<CellInit>>>,
    /// The runs of each name, the latest last.
    pub(super) executables: Mutex<BTreeMap<ExecutableName, Vec<Arc<Executable>>>>,
    /// Held while a run or the init is started, so that the news of an end
    /// never comes before the run is known.
    pub(super) starting: tokio::sync::Mutex<()>,
    /// Held while the cell is removed.
    removing: tokio::sync::Mutex<()>,
}

pub(super) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn internal(what: &str, error: impl std::fmt::Display) -> Error {
    Error::internal(format!("cannot {what}: {error}"))
}

impl Cell {
    pub(super) fn new(spec: CellSpec, shared: &Arc<Shared>) -> Self {
        Self {
            folder: shared.folder.cell(&spec.name),
            cgroup: shared.cgroups.cell(&spec.name),
            spec,
            shared: Arc::downgrade(shared),
            allocated_at_ms: Mutex::new(now_ms()),
            phase: watch::Sender::new(Phase::Allocating),
            init: Mutex::default(),
            executables: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
            removing: tokio::sync::Mutex::default(),
        }
    }

    /// A cell found on disk after a restart, with its init if that lives.
    pub(super) fn recovered(file: CellFile, shared: &Arc<Shared>) -> Self {
        let cell = Self::new(file.spec, shared);
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

    pub(super) fn shared(&self) -> Result<Arc<Shared>> {
        self.shared
            .upgrade()
            .ok_or_else(|| Error::unavailable("the node is shutting down"))
    }

    /// Makes the cell: folder, cgroup, init, record. On failure all of it is
    /// taken away again.
    pub(super) fn build(self: &Arc<Self>, parent: Option<&Self>) -> Result<()> {
        if let Err(error) = blocking(|| self.make(parent)) {
            if let Err(left) = blocking(|| self.take_away()) {
                tracing::error!(cell = %self.spec.name, %left, "a failed cell could not be cleaned up");
            }
            return Err(error);
        }
        self.set_phase(Phase::Ready);
        tracing::info!(cell = %self.spec.name, "allocated");
        Ok(())
    }

    fn make(self: &Arc<Self>, parent: Option<&Self>) -> Result<()> {
        make_private(&self.folder).map_err(|e| internal("make the cell's folder", e))?;
        let started = self.start_init(parent)?;
        self.adopt_init(started)?;
        let file = CellFile {
            spec: self.spec.clone(),
            allocated_at_ms: self.allocated_at_ms(),
        };
        create_record(&self.folder.join("cell.json"), &file)
            .map_err(|e| internal("write the cell's record", e))
    }

    /// Gives a cell whose init died a new one.
    pub(super) async fn revive(self: &Arc<Self>, parent: Option<Arc<Self>>) -> Result<()> {
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
        tracing::info!(cell = %self.spec.name, "revived");
        Ok(())
    }

    fn start_init(&self, parent: Option<&Self>) -> Result<StartedInit> {
        let shared = self.shared()?;
        self.cgroup.create(&self.spec).map_err(cgroup_error)?;
        match parent {
            None => shared.keeper.start_cell(&shared, &self.spec, &self.cgroup),
            Some(parent) => parent
                .init()?
                .start_cell(&shared.image, &self.spec, &self.folder, &self.cgroup)
                .map_err(|error| init_error(&error)),
        }
    }

    pub(super) fn init(&self) -> Result<Arc<CellInit>> {
        guard(&self.init).clone().ok_or_else(|| {
            Error::wrong_state(format!(
                "the init of cell {:?} has ended",
                self.spec.name.to_string()
            ))
        })
    }

    /// Takes an init as this cell's, and listens to it for as long as it
    /// lives.
    pub(super) fn adopt_init(self: &Arc<Self>, started: StartedInit) -> Result<()> {
        let news = started
            .events
            .readable()
            .map_err(|e| internal("watch the cell's init", e))?;
        *guard(&self.init) = Some(Arc::new(started.init));
        let cell = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let event = next_event(&news).await;
                let Some(cell) = cell.upgrade() else { return };
                match event {
                    InitEvent::Exited(run) => cell.on_exit(run).await,
                    InitEvent::Gone => return cell.on_init_gone().await,
                }
            }
        });
        Ok(())
    }

    pub(super) fn adopt_run(&self, run: Executable) {
        let mut executables = guard(&self.executables);
        let runs = executables.entry(run.spec.name.clone()).or_default();
        runs.push(Arc::new(run));
        runs.sort_by_key(|run| run.run);
    }

    async fn on_exit(&self, run: u64) {
        // A run becomes known only when its start is over.
        drop(self.starting.lock().await);
        if let Some(run) = self.runs().into_iter().find(|known| known.run == run) {
            self.conclude(&run);
        }
    }

    async fn on_init_gone(&self) {
        let _starting = self.starting.lock().await;
        guard(&self.init).take();
        if self.set_phase(Phase::Dead("its init ended".into())) {
            tracing::warn!(cell = %self.spec.name, "the cell's init ended, and all in it");
        }
        for run in self.runs() {
            self.conclude(&run);
        }
    }

    /// Removes the cell: its record first, so that a death in the middle is
    /// finished after the restart.
    pub(super) async fn remove(self: &Arc<Self>) -> Result<()> {
        let _removing = self.removing.lock().await;
        if self.phase() == Phase::Gone {
            return Ok(());
        }
        blocking(|| self.take_away())?;
        // Still under the lock: whoever waits for it must not take away a
        // new cell of the same name.
        self.set_phase(Phase::Gone);
        tracing::info!(cell = %self.spec.name, "freed");
        Ok(())
    }

    fn take_away(&self) -> Result<()> {
        remove_file(&self.folder.join("cell.json"))
            .map_err(|e| internal("remove the cell's record", e))?;
        if let Some(init) = guard(&self.init).take() {
            init.kill()
                .map_err(|e| internal("end the cell's init", e))?;
        }
        self.cgroup.remove_tree().map_err(cgroup_error)?;
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(internal("remove the cell's folder", error))
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

async fn next_event(news: &AsyncFd<InitEvents>) -> InitEvent {
    loop {
        let Ok(mut ready) = news.readable().await else {
            return InitEvent::Gone;
        };
        match ready.try_io(|news| news.get_ref().next()) {
            Ok(Ok(event)) => return event,
            Ok(Err(_)) => return InitEvent::Gone,
            Err(_would_block) => {}
        }
    }
}
