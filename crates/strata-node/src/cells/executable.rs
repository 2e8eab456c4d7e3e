//! One run of an executable: what is known of it now, and what is kept of it
//! on disk.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_cell::{ExitVerdict, RunGroup, RunRecord, RunState};
use strata_types::{Backoff, Ending, ExecutableSpec, ExecutableState, Result};
use tokio::sync::watch;

use super::cell::guard;
use super::error::cgroup_error;
use crate::blocking::blocking;

/// What is kept of a run's beginning.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunParameters {
    pub(super) spec: ExecutableSpec,
    /// Kills for want of memory in the cell before this run.
    pub(super) out_of_memory_kills: u64,
    #[serde(default)]
    pub(super) supervision: Supervision,
}

/// What one run of a supervised executable hands on to the next. Kept with each
/// run, so that nothing else has to be: the latest run holds it all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Supervision {
    /// When a caller started it, as runs are numbered: after a reboot they come
    /// in this order.
    pub(super) since: u64,
    /// How often it was started again since.
    pub(super) restarts: u32,
    pub(super) backoff: Backoff,
}

/// What is known of a run now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunView {
    pub(crate) state: ExecutableState,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) ending: Option<Ending>,
    /// While it waits to be started again.
    pub(crate) next_start_at_ms: i64,
    /// Another run has taken its place.
    pub(crate) followed: bool,
    pub(crate) cpu_user: Duration,
    pub(crate) cpu_system: Duration,
    pub(crate) memory_peak_bytes: u64,
}

impl RunView {
    pub(super) fn running(started_ns: u64) -> Self {
        Self {
            state: ExecutableState::Running,
            started_ns,
            ended_ns: 0,
            ending: None,
            next_start_at_ms: 0,
            followed: false,
            cpu_user: Duration::ZERO,
            cpu_system: Duration::ZERO,
            memory_peak_bytes: 0,
        }
    }

    /// Whether its process is no more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_at_rest() || self.is_waiting()
    }

    /// Whether its process is no more, and none follows.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.state == ExecutableState::Exited
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state == ExecutableState::Waiting
    }
}

/// One run of an executable.
pub(crate) struct Executable {
    pub(crate) spec: ExecutableSpec,
    /// Unix nanoseconds of its start; greater for later runs.
    pub(crate) run: u64,
    /// As the node sees it; 0 when the node never saw it.
    pub(crate) pid: i64,
    pub(crate) dir: PathBuf,
    pub(super) group: RunGroup,
    pub(super) out_of_memory_kills: u64,
    /// For the run after this one.
    supervision: Mutex<Supervision>,
    told_to_end: AtomicBool,
    /// Why the run after this one could not be started.
    trouble: Mutex<String>,
    view: watch::Sender<RunView>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunEnd {
    pub(super) ending: Ending,
    pub(super) ended_ns: u64,
    pub(super) lived: Duration,
}

impl RunEnd {
    /// As its init wrote it down. Where the init died before it could, the
    /// run counts as lost now.
    pub(super) fn of(run: &Executable, record: Option<&RunRecord>, now_ns: u64) -> Self {
        let (ending, ended_ns) = match record.map(|r| (r.state, r.verdict, r.ended_ns)) {
            Some((RunState::Ended(_), Some(ExitVerdict::OutOfMemory), at)) => {
                (Ending::OutOfMemory, at)
            }
            Some((RunState::Ended(ending), _, at)) => (ending, at),
            _ => (Ending::Lost, now_ns),
        };
        let started_ns = record.map_or(run.view().started_ns, |record| record.started_ns);
        Self {
            ending,
            ended_ns,
            lived: Duration::from_nanos(ended_ns.saturating_sub(started_ns)),
        }
    }
}

impl Executable {
    /// Kills it, and does not wait for its end.
    pub(crate) fn kill(&self) -> Result<()> {
        blocking(|| self.group.kill()).map_err(cgroup_error)
    }

    pub(super) fn new(
        asked: RunParameters,
        run: u64,
        pid: i32,
        dir: PathBuf,
        group: RunGroup,
        view: RunView,
    ) -> Self {
        Self {
            spec: asked.spec,
            run,
            pid: pid.into(),
            dir,
            group,
            out_of_memory_kills: asked.out_of_memory_kills,
            supervision: Mutex::new(asked.supervision),
            told_to_end: AtomicBool::new(false),
            trouble: Mutex::default(),
            view: watch::Sender::new(view),
        }
    }

    /// What is known now.
    pub(crate) fn view(&self) -> RunView {
        *self.view.borrow()
    }

    /// What is known, and changes of it.
    pub(crate) fn watch(&self) -> watch::Receiver<RunView> {
        self.view.subscribe()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> RunView {
        let mut watch = self.watch();
        match watch.wait_for(RunView::is_over).await {
            Ok(view) => *view,
            Err(_) => self.view(),
        }
    }

    /// Waits until its process has ended and it does not wait for another: none
    /// comes, or one has taken its place.
    pub(crate) async fn at_rest(&self) -> RunView {
        let mut watch = self.watch();
        match watch.wait_for(RunView::is_at_rest).await {
            Ok(view) => *view,
            Err(_) => self.view(),
        }
    }

    /// What it hands on to the run after it.
    pub(super) fn supervision(&self) -> Supervision {
        *guard(&self.supervision)
    }

    pub(super) fn supervise(&self, change: impl FnOnce(&mut Supervision)) {
        change(&mut guard(&self.supervision));
    }

    /// How often it was restarted since a caller started it.
    pub(crate) fn restarts(&self) -> u32 {
        self.supervision().restarts
    }

    pub(super) fn is_told_to_end(&self) -> bool {
        self.told_to_end.load(Ordering::Relaxed)
    }

    pub(super) fn set_told_to_end(&self) {
        self.told_to_end.store(true, Ordering::Relaxed);
    }

    /// Why the run after this one could not be started; empty while it was
    /// not tried.
    pub(crate) fn trouble(&self) -> String {
        guard(&self.trouble).clone()
    }

    /// The next try comes later.
    pub(super) fn put_off(&self, trouble: String, next_start_at_ms: i64) {
        *guard(&self.trouble) = trouble;
        self.view
            .send_modify(|view| view.next_start_at_ms = next_start_at_ms);
    }

    /// It does not wait any more; whether another run took its place.
    pub(super) fn set_at_rest(&self, followed: bool) {
        self.view.send_if_modified(|view| {
            let may = view.is_waiting();
            if may {
                view.state = ExecutableState::Exited;
                view.next_start_at_ms = 0;
                view.followed = followed;
            }
            may
        });
    }

    pub(super) fn set_stopping(&self) {
        self.view.send_if_modified(|view| {
            let may = view.state.may_become(ExecutableState::Stopping);
            if may {
                view.state = ExecutableState::Stopping;
            }
            may
        });
    }

    /// Records its end, and when it is started again if it is; false where that
    /// was known.
    pub(super) fn set_ended(
        &self,
        end: RunEnd,
        record: Option<&RunRecord>,
        next_start_at_ms: Option<i64>,
    ) -> bool {
        self.view.send_if_modified(|view| {
            // A run that was requested to end ends.
            let is_followed = next_start_at_ms.is_some() && view.state == ExecutableState::Running;
            let wanted = match is_followed {
                true => ExecutableState::Waiting,
                false => ExecutableState::Exited,
            };
            let may = view.state.may_become(wanted);
            if may {
                view.state = wanted;
                view.next_start_at_ms = next_start_at_ms.filter(|_| is_followed).unwrap_or(0);
                view.ending = Some(end.ending);
                view.ended_ns = end.ended_ns;
                if let Some(record) = record {
                    view.started_ns = record.started_ns;
                    view.cpu_user = record.cpu_user;
                    view.cpu_system = record.cpu_system;
                    view.memory_peak_bytes = record.memory_peak_bytes;
                }
            }
            may
        })
    }
}
