//! What runs in a cell: started, stopped, remembered, and recorded when it has
//! ended.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_cell::{CellInit, ExitVerdict, Launch, LinkError, RunRecord, RunState, Stdio};
use strata_types::{
    Ending, EnvironmentVariable, Error, ExecutableName, ExecutableSpec, ExecutableState, IdMap,
    Identity, Result, RootMode,
};

use super::cell::{Cell, guard, internal};
use super::error::{cgroup_error, start_error};
use super::executable::{Executable, RunEnd, RunParameters, RunView, Supervision};
use super::{Phase, Shared, being_freed};
use crate::blocking::blocking;
use crate::clock::now_ns;
use crate::node_dir::make_private;

/// The last signal of a stop.
const KILL: i32 = 9;
/// How long a killed process may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// How an executable is started, beyond its specification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchOptions<'a> {
    /// What it reads and writes.
    pub(crate) stdio: Stdio<'a>,
    /// Whether it is held to the cell's confinement.
    pub(crate) sandboxed: bool,
    /// Whether it is PID 1 of processes of its own, with mounts of its own.
    pub(crate) as_init: bool,
    /// Whether signals for the cell's init are for this run.
    pub(crate) main: bool,
    /// Variables that are written down nowhere; they go before those of the
    /// specification.
    pub(crate) environment: &'a [EnvironmentVariable],
}

/// Which user of the host a user of a cell is.
pub(crate) fn owner_on_host(identity: &Identity, users: Option<IdMap>) -> (u32, u32) {
    let uid = identity.uid.unwrap_or(0);
    let gid = identity.gid.unwrap_or(uid);
    let first = users.map_or(0, |map| map.first);
    (first.saturating_add(uid), first.saturating_add(gid))
}

impl LaunchOptions<'_> {
    pub(super) const PLAIN: Self = Self {
        stdio: Stdio::Logged,
        sandboxed: false,
        as_init: false,
        main: false,
        environment: &[],
    };
}

impl Cell {
    /// Records the end of a run: whatever it left running goes, its status is
    /// read, and waiters are notified.
    pub(super) fn conclude(self: &Arc<Self>, run: &Arc<Executable>) {
        if run.view().is_over() {
            return;
        }
        let record = blocking(|| {
            let record = RunRecord::read(&run.dir).ok();
            let record = record.map(|record| self.with_verdict(run, record));
            if let Err(error) = run.group.remove() {
                tracing::error!(cell = %self.spec.name, executable = %run.spec.name, %error,
                    "leftover processes of the run not killed");
            }
            record
        });
        let end = RunEnd::of(run, record.as_ref(), now_ns());
        let next = self.next_start(run, end);
        if !run.set_ended(end, record.as_ref(), next) {
            return;
        }
        tracing::info!(cell = %self.spec.name, executable = %run.spec.name, pid = run.pid,
            ending = %end.ending, "executable exited");
        if run.view().is_waiting() {
            self.start_later(run);
        }
    }

    /// Finds out whether a killed run was killed for want of memory, and writes
    /// it down: the figures that show it are gone after this.
    fn with_verdict(&self, run: &Executable, mut record: RunRecord) -> RunRecord {
        let killed = record.state == RunState::Ended(Ending::Signal(KILL));
        if killed && record.verdict.is_none() {
            let was_told = run.view().state == ExecutableState::Stopping;
            let verdict = match !was_told && self.ran_out_of_memory(run) {
                true => ExitVerdict::OutOfMemory,
                false => ExitVerdict::AsWritten,
            };
            if let Err(error) = RunRecord::write_verdict(&run.dir, verdict) {
                tracing::warn!(run = %run.dir.display(), %error, "exit verdict of the run not saved");
            }
            record.verdict = Some(verdict);
        }
        record
    }

    /// Exact where the run has a memory group of its own (v2). On v1 a kill
    /// that the cell counts is put down to one killed run, and not to another.
    fn ran_out_of_memory(&self, run: &Executable) -> bool {
        if let Some(kills) = run.group.out_of_memory_kills() {
            return kills > 0;
        }
        let count = self.cgroup.out_of_memory_kills();
        guard(&self.accounted_kills).attribute(run.out_of_memory_kills, count)
    }

    /// Starts an executable; answers its pid.
    pub(super) async fn start(
        self: &Arc<Self>,
        spec: ExecutableSpec,
        input: Option<OwnedFd>,
    ) -> Result<i64> {
        let _starting = self.starting.lock().await;
        self.require_ready()?;
        if let Some(pid) = self.running_already(&spec)? {
            return Ok(pid);
        }
        let waiting = self.executable(&spec.name).ok();
        let waiting = waiting.filter(|run| run.view().is_waiting());
        // A run that is requested again keeps its place among the others.
        let supervision = Supervision {
            since: waiting.as_ref().map_or(0, |run| run.supervision().since),
            ..Supervision::default()
        };
        let stdio = match &input {
            Some(input) => Stdio::LoggedWithFile(input.as_fd()),
            None => Stdio::Logged,
        };
        let launch_options = LaunchOptions {
            stdio,
            ..LaunchOptions::PLAIN
        };
        let run = blocking(|| self.launch(spec, launch_options, supervision))?;
        let pid = self.keep(run).pid;
        // The run that waited for its restart waits no more.
        if let Some(run) = waiting {
            run.set_at_rest(true);
        }
        Ok(pid)
    }

    pub(super) fn require_ready(&self) -> Result<()> {
        match self.phase() {
            Phase::Ready => Ok(()),
            _ => Err(being_freed(&self.spec.name)),
        }
    }

    /// Starts an executable under a name that nothing runs under.
    pub(crate) async fn start_again(
        self: &Arc<Self>,
        spec: ExecutableSpec,
        launch_options: LaunchOptions<'_>,
    ) -> Result<Arc<Executable>> {
        let _starting = self.starting.lock().await;
        self.require_ready()?;
        let run = blocking(|| self.launch(spec, launch_options, Supervision::default()))?;
        Ok(self.keep(run))
    }

    /// Removes a run that is over, and all that is kept of it.
    pub(crate) fn forget(&self, run: &Arc<Executable>) {
        guard(&self.runs).forget(run);
        let _ = fs::remove_dir_all(&run.dir);
    }

    /// The pid of the same executable, if it runs.
    fn running_already(&self, spec: &ExecutableSpec) -> Result<Option<i64>> {
        let Ok(run) = self.executable(&spec.name) else {
            return Ok(None);
        };
        let view = run.view();
        if view.is_at_rest() || (view.is_waiting() && run.spec == *spec) {
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

    pub(super) fn launch(
        &self,
        spec: ExecutableSpec,
        launch_options: LaunchOptions<'_>,
        supervision: Supervision,
    ) -> Result<Executable> {
        let shared = self.shared()?;
        let init = self.init()?;
        let run = self.next_run();
        let dir = self.dir.join(format!("run-{run}"));
        make_private(&dir).map_err(|e| internal("make the run's directory", e))?;
        let supervision = match supervision.since {
            0 => Supervision {
                since: run,
                ..supervision
            },
            _ => supervision,
        };
        let kills = self.cgroup.out_of_memory_kills();
        guard(&self.accounted_kills).launched(kills);
        let asked = RunParameters {
            spec,
            out_of_memory_kills: kills,
            supervision,
        };
        let launched = self.launch_in(&shared, &init, asked, run, &dir, launch_options);
        if launched.is_err() {
            // Nothing started: nothing of it stays.
            if let Ok(group) = self.cgroup.run(run) {
                let _ = group.remove();
            }
            let _ = fs::remove_dir_all(&dir);
        }
        launched
    }

    fn launch_in(
        &self,
        shared: &Shared,
        init: &CellInit,
        asked: RunParameters,
        run: u64,
        dir: &Path,
        launch_options: LaunchOptions<'_>,
    ) -> Result<Executable> {
        RunRecord::create(dir, &asked).map_err(|e| internal("write the run's record", e))?;
        if let Some(map) = self.spec.id_map {
            RunRecord::hand_over(dir, map)
                .map_err(|e| internal("hand over the run's directory", e))?;
        }
        if matches!(launch_options.stdio, Stdio::LoggedWithInput) {
            self.make_input(dir, &asked.spec.identity)?;
        }
        let group = self
            .cgroup
            .create_run(run, self.spec.id_map)
            .map_err(cgroup_error)?;
        let launch = Launch {
            spec: &asked.spec,
            run,
            dir,
            logs: shared.logs,
            group: &group,
            stdio: launch_options.stdio,
            sandboxed: launch_options.sandboxed,
            as_init: launch_options.as_init,
            main: launch_options.main,
            environment: launch_options.environment,
            host_cgroups: self.spec.host_cgroups,
            not_after: shared.shim.not_after(&self.cgroup),
        };
        let pid = init.start(&launch).map_err(|error| {
            let full = error.is_out_of_processes();
            let full = full.then(|| self.full_of_processes()).flatten();
            full.unwrap_or_else(|| start_error(&error))
        })?;
        // It runs: a record without its pid is mended at the next restart.
        if let Err(error) = RunRecord::write_pid(dir, pid) {
            tracing::warn!(run = %dir.display(), %error, "pid of the run not saved");
        }
        if asked.spec.is_supervised() {
            self.make_lasting(shared.dir.root(), dir);
        }
        let view = RunView::running(run);
        Ok(Executable::new(
            asked,
            run,
            pid,
            dir.to_owned(),
            group,
            view,
        ))
    }

    /// The named pipe that a run reads, and others write to.
    fn make_input(&self, dir: &Path, identity: &Identity) -> Result<()> {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let path = dir.join("stdin");
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, mode, 0)
            .map_err(|e| internal("make the run's input", std::io::Error::from(e)))?;
        let (uid, gid) = owner_on_host(identity, self.spec.id_map);
        std::os::unix::fs::lchown(&path, Some(uid), Some(gid))
            .map_err(|e| internal("hand over the run's input", e))
    }

    /// Numbers of runs are times, and never the same twice.
    fn next_run(&self) -> u64 {
        let latest = self.runs().iter().map(|run| run.run).max().unwrap_or(0);
        now_ns().max(latest + 1)
    }

    /// Records a run, and drops those that are too old.
    pub(super) fn keep(self: &Arc<Self>, run: Executable) -> Arc<Executable> {
        tracing::info!(cell = %self.spec.name, executable = %run.spec.name, pid = run.pid, "executable started");
        let run = Arc::new(run);
        let (has_ended, forgotten) = {
            let mut runs = guard(&self.runs);
            (runs.add(run.clone()), runs.forget_old())
        };
        if has_ended {
            self.conclude(&run);
        }
        for old in forgotten {
            let _ = fs::remove_dir_all(&old.dir);
        }
        run
    }

    pub(super) fn adopt_run(&self, run: Executable) {
        guard(&self.runs).add(Arc::new(run));
    }

    /// All runs that are remembered.
    pub(crate) fn runs(&self) -> Vec<Arc<Executable>> {
        guard(&self.runs).all().cloned().collect()
    }

    /// The latest run of each name.
    pub(crate) fn latest_runs(&self) -> Vec<Arc<Executable>> {
        guard(&self.runs).latest().cloned().collect()
    }

    /// The latest run of a name.
    pub(crate) fn executable(&self, name: &ExecutableName) -> Result<Arc<Executable>> {
        guard(&self.runs).latest_of(name).cloned().ok_or_else(|| {
            Error::not_found(format!(
                "there is no executable {:?} in cell {:?}",
                name.as_str(),
                self.spec.name.to_string()
            ))
            .in_field("executable_name")
        })
    }

    /// Stops an executable and all that it forked, permanently.
    pub(super) async fn stop(&self, name: &ExecutableName, grace: Option<Duration>) -> Result<()> {
        let run = self.let_go(self.executable(name)?).await?;
        let stopped = self.stop_run(&run, grace).await;
        // It may have ended by itself just before.
        run.set_at_rest(false);
        stopped
    }

    /// Its stop signal, a grace period, SIGKILL to what is left. In a cell
    /// with a root of its own, such as a pod's, the signal goes to its process
    /// alone, which knows in which order its children end; elsewhere to its
    /// process group.
    pub(crate) async fn stop_run(
        &self,
        run: &Arc<Executable>,
        grace: Option<Duration>,
    ) -> Result<()> {
        if run.view().is_over() {
            run.set_at_rest(false);
            return Ok(());
        }
        run.set_stopping();
        let grace = grace.unwrap_or(run.spec.stop_grace);
        match self.spec.root {
            RootMode::Handed => self.signal_process(run, run.spec.stop_signal)?,
            _ => self.signal(run, run.spec.stop_signal)?,
        }
        if tokio::time::timeout(grace, run.ended()).await.is_ok() {
            return Ok(());
        }
        tracing::info!(cell = %self.spec.name, executable = %run.spec.name, ?grace,
            "executable killed after its grace period");
        // Not through the init: it may be what hangs.
        blocking(|| run.group.kill()).map_err(cgroup_error)?;
        match tokio::time::timeout(KILL_TIMEOUT, run.ended()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::unavailable(format!(
                "executable {:?} was killed, but its cell's init has not reported its exit within {KILL_TIMEOUT:?}",
                run.spec.name.as_str()
            ))),
        }
    }

    /// Sends a signal to the process group of a run.
    pub(crate) fn signal(&self, run: &Executable, signal: i32) -> Result<()> {
        self.signal_by(|init| init.signal(run.run, signal))
    }

    /// Sends a signal to the process of a run alone.
    pub(crate) fn signal_process(&self, run: &Executable, signal: i32) -> Result<()> {
        self.signal_by(|init| init.signal_process(run.run, signal))
    }

    fn signal_by(&self, send: impl FnOnce(&CellInit) -> Result<(), LinkError>) -> Result<()> {
        // An init that is gone took the run along.
        let Ok(init) = self.init() else { return Ok(()) };
        match blocking(|| send(&init)) {
            Ok(()) | Err(LinkError::Unreachable(_)) => Ok(()),
            Err(error) => Err(Error::internal(error.to_string())),
        }
    }

    /// Stops every executable, all at once. What cannot be stopped goes with
    /// its cell.
    pub(super) async fn stop_all(&self, grace: Option<Duration>) {
        // A start under way becomes known first; none begins after it.
        drop(self.starting.lock().await);
        let runs = self.runs();
        let stops = runs.iter().map(|run| self.stop_run(run, grace));
        for stopped in futures_util::future::join_all(stops).await {
            if let Err(error) = stopped {
                tracing::warn!(cell = %self.spec.name, %error, "graceful stop failed");
            }
        }
    }
}
