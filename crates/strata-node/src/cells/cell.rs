//! One cell: its init, its executables, its end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_cell::{
    CellInit, Cgroup, InitEvent, InitEvents, Launch, LinkError, RunRecord, StartedInit, Usage,
    create_record, read_record,
};
use strata_types::{CellSpec, Error, ExecutableName, ExecutableSpec, Result};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::error::{cgroup_error, init_error, start_error};
use super::executable::{Asked, Executable, RunView};
use super::{Phase, Shared, being_freed};
use crate::blocking::blocking;
use crate::clock::{now_ms, now_ns};
use crate::folder::make_private;

/// Runs of one name that are kept: the latest and those before it.
const KEPT_RUNS: usize = 3;
/// Names of executables one cell remembers.
const KEPT_NAMES: usize = 1000;
/// The two signals of a stop.
const TERM: i32 = 15;
const KILL: i32 = 9;
/// How long a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(20);

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
    folder: PathBuf,
    cgroup: Cgroup,
    allocated_at_ms: Mutex<i64>,
    phase: watch::Sender<Phase>,
    init: Mutex<Option<Arc<CellInit>>>,
    /// The runs of each name, the latest last.
    executables: Mutex<BTreeMap<ExecutableName, Vec<Arc<Executable>>>>,
    /// Held while a run or the init is started, so that the news of an end
    /// never comes before the run is known.
    starting: tokio::sync::Mutex<()>,
    /// Held while the cell is removed.
    removing: tokio::sync::Mutex<()>,
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn internal(what: &str, error: impl std::fmt::Display) -> Error {
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

    fn shared(&self) -> Result<Arc<Shared>> {
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

    fn init(&self) -> Result<Arc<CellInit>> {
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

    /// Takes in the end of a run: whatever it left running goes, its status
    /// is read, and whoever waits is told.
    pub(super) fn conclude(&self, run: &Executable) {
        if run.view().is_over() {
            return;
        }
        let (record, was_out_of_memory) = blocking(|| {
            if let Err(error) = run.group.remove() {
                tracing::error!(cell = %self.spec.name, executable = %run.spec.name, %error,
                    "what a run left behind could not be ended");
            }
            let kills = self.cgroup.out_of_memory_kills();
            (
                RunRecord::read(&run.folder).ok(),
                kills > run.out_of_memory_kills,
            )
        });
        run.set_ended(record.as_ref(), was_out_of_memory, now_ns());
        let ending = run.view().ending.map(|ending| ending.to_string());
        tracing::info!(cell = %self.spec.name, executable = %run.spec.name, pid = run.pid,
            ending, "ended");
    }

    /// Starts an executable; answers its pid.
    pub(super) async fn start(self: &Arc<Self>, spec: ExecutableSpec) -> Result<i64> {
        let _starting = self.starting.lock().await;
        if self.phase() != Phase::Ready {
            return Err(being_freed(&self.spec.name));
        }
        if let Some(pid) = self.running_already(&spec)? {
            return Ok(pid);
        }
        let run = blocking(|| self.launch(spec))?;
        let pid = run.pid;
        tracing::info!(cell = %self.spec.name, executable = %run.spec.name, pid, "started");
        self.keep(run);
        Ok(pid)
    }

    /// The pid of the same executable, if it runs.
    fn running_already(&self, spec: &ExecutableSpec) -> Result<Option<i64>> {
        let Ok(run) = self.executable(&spec.name) else {
            return Ok(None);
        };
        if run.view().is_over() {
            return Ok(None);
        }
        if run.spec == *spec {
            return Ok(Some(run.pid));
        }
        Err(Error::already_exists(format!(
            "executable {:?} of cell {:?} runs already, with another command or other options",
            spec.name.as_str(),
            self.spec.name.to_string()
        ))
        .in_field("executable.name")
        .with_hint("stop it first, or start under another name"))
    }

    fn launch(&self, spec: ExecutableSpec) -> Result<Executable> {
        let shared = self.shared()?;
        let init = self.init()?;
        let run = self.next_run();
        let folder = self.folder.join("runs").join(run.to_string());
        make_private(&folder).map_err(|e| internal("make the run's folder", e))?;
        let launched = self.launch_in(&shared, &init, spec, run, &folder);
        if launched.is_err() {
            // Nothing started: nothing of it stays.
            if let Ok(group) = self.cgroup.run(run) {
                let _ = group.remove();
            }
            let _ = fs::remove_dir_all(&folder);
        }
        launched
    }

    fn launch_in(
        &self,
        shared: &Shared,
        init: &CellInit,
        spec: ExecutableSpec,
        run: u64,
        folder: &std::path::Path,
    ) -> Result<Executable> {
        let kills = self.cgroup.out_of_memory_kills();
        let asked = Asked {
            spec,
            out_of_memory_kills: kills,
        };
        RunRecord::create(folder, &asked).map_err(|e| internal("write the run's record", e))?;
        let group = self.cgroup.create_run(run).map_err(cgroup_error)?;
        let launch = Launch {
            spec: &asked.spec,
            run,
            folder,
            logs: shared.logs,
            group: &group,
        };
        let pid = init.start(&launch).map_err(|error| start_error(&error))?;
        // It runs: a record without its pid is mended at the next restart.
        if let Err(error) = RunRecord::write_pid(folder, pid) {
            tracing::warn!(%error, "a pid could not be written down");
        }
        let view = RunView::running(run);
        Ok(Executable::new(
            asked,
            run,
            pid,
            folder.to_owned(),
            group,
            view,
        ))
    }

    /// Numbers of runs are times, and never the same twice.
    fn next_run(&self) -> u64 {
        let latest = self.runs().iter().map(|run| run.run).max().unwrap_or(0);
        now_ns().max(latest + 1)
    }

    /// Remembers a run, and forgets what is too old to remember.
    fn keep(&self, run: Executable) {
        let mut executables = guard(&self.executables);
        let runs = executables.entry(run.spec.name.clone()).or_default();
        runs.push(Arc::new(run));
        let excess = runs.len().saturating_sub(KEPT_RUNS);
        let mut forgotten: Vec<_> = runs.drain(..excess).collect();
        if executables.len() > KEPT_NAMES {
            let is_over = |runs: &Vec<Arc<Executable>>| runs.iter().all(|run| run.view().is_over());
            let oldest = executables
                .iter()
                .filter(|(_, runs)| is_over(runs))
                .min_by_key(|(_, runs)| runs.last().map(|run| run.run))
                .map(|(name, _)| name.clone());
            forgotten.extend(
                oldest
                    .and_then(|name| executables.remove(&name))
                    .into_iter()
                    .flatten(),
            );
        }
        drop(executables);
        for run in forgotten {
            let _ = fs::remove_dir_all(&run.folder);
        }
    }

    /// All runs that are remembered.
    pub(crate) fn runs(&self) -> Vec<Arc<Executable>> {
        guard(&self.executables)
            .values()
            .flatten()
            .cloned()
            .collect()
    }

    /// The latest run of each name.
    pub(crate) fn latest_runs(&self) -> Vec<Arc<Executable>> {
        guard(&self.executables)
            .values()
            .filter_map(|runs| runs.last().cloned())
            .collect()
    }

    /// The latest run of a name.
    pub(crate) fn executable(&self, name: &ExecutableName) -> Result<Arc<Executable>> {
        guard(&self.executables)
            .get(name)
            .and_then(|runs| runs.last().cloned())
            .ok_or_else(|| {
                Error::not_found(format!(
                    "there is no executable {:?} in cell {:?}",
                    name.as_str(),
                    self.spec.name.to_string()
                ))
                .in_field("executable_name")
            })
    }

    /// Stops an executable and all that it forked.
    pub(super) async fn stop(&self, name: &ExecutableName, grace: Option<Duration>) -> Result<()> {
        let run = self.executable(name)?;
        self.stop_run(&run, grace).await
    }

    /// SIGTERM to its process group, a grace period, SIGKILL to what is left.
    async fn stop_run(&self, run: &Arc<Executable>, grace: Option<Duration>) -> Result<()> {
        if run.view().is_over() {
            return Ok(());
        }
        run.set_stopping();
        let grace = grace.unwrap_or(run.spec.stop_grace);
        self.signal(run, TERM)?;
        if tokio::time::timeout(grace, run.ended()).await.is_ok() {
            return Ok(());
        }
        tracing::info!(cell = %self.spec.name, executable = %run.spec.name, ?grace,
            "did not end in time, killed");
        self.signal(run, KILL)?;
        match tokio::time::timeout(KILL_PATIENCE, run.ended()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::unavailable(format!(
                "executable {:?} was killed {KILL_PATIENCE:?} ago and has not ended; it hangs in the kernel",
                run.spec.name.as_str()
            ))),
        }
    }

    fn signal(&self, run: &Executable, signal: i32) -> Result<()> {
        // An init that is gone took the run along.
        let Ok(init) = self.init() else { return Ok(()) };
        match blocking(|| init.signal(run.run, signal)) {
            Ok(()) | Err(LinkError::Unreachable(_)) => Ok(()),
            Err(error) => Err(Error::internal(error.to_string())),
        }
    }

    /// Stops every executable, all at once.
    pub(super) async fn stop_all(&self, grace: Option<Duration>) -> Result<()> {
        let runs = self.runs();
        let stops = runs.iter().map(|run| self.stop_run(run, grace));
        futures_util::future::join_all(stops)
            .await
            .into_iter()
            .collect()
    }

    /// Removes the cell: its record first, so that a death in the middle is
    /// finished after the restart.
    pub(super) async fn remove(self: &Arc<Self>) -> Result<()> {
        let _removing = self.removing.lock().await;
        if self.phase() == Phase::Gone {
            return Ok(());
        }
        blocking(|| self.take_away())?;
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
