//! What runs in a cell: started, stopped, remembered, and taken in when it
//! has ended.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_cell::{CellInit, Launch, LinkError, RunRecord};
use strata_types::{Error, ExecutableName, ExecutableSpec, Result};

use super::cell::{Cell, guard, internal};
use super::error::{cgroup_error, start_error};
use super::executable::{Asked, Executable, RunView};
use super::{Phase, Shared, being_freed};
use crate::blocking::blocking;
use crate::clock::now_ns;
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

impl Cell {
    /// Takes in the end of a run: whatever it left running goes, its status
    /// is read, and whoever waits is told.
    pub(super) fn conclude(&self, run: &Executable) {
        if run.view().is_over() {
            return;
        }
        let (record, was_out_of_memory) = blocking(|| {
            // Exact where the run has a memory group of its own; elsewhere the
            // cell's count must do, which a neighbour may have raised.
            let was_out_of_memory = match run.group.out_of_memory_kills() {
                Some(kills) => kills > 0,
                None => self.cgroup.out_of_memory_kills() > run.out_of_memory_kills,
            };
            if let Err(error) = run.group.remove() {
                tracing::error!(cell = %self.spec.name, executable = %run.spec.name, %error,
                    "what a run left behind could not be ended");
            }
            (RunRecord::read(&run.folder).ok(), was_out_of_memory)
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
        folder: &Path,
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
        // A start under way becomes known first; none begins after it.
        drop(self.starting.lock().await);
        let runs = self.runs();
        let stops = runs.iter().map(|run| self.stop_run(run, grace));
        futures_util::future::join_all(stops)
            .await
            .into_iter()
            .collect()
    }
}
