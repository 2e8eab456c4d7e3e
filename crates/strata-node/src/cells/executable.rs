//! One run of an executable: what is known of it now, and what is kept of it
//! on disk.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_cell::{RunGroup, RunRecord, RunState, Verdict};
use strata_types::{Ending, ExecutableSpec, ExecutableState};
use tokio::sync::watch;

/// What is kept of a run's beginning.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) spec: ExecutableSpec,
    /// Kills for want of memory in the cell before this run.
    pub(super) out_of_memory_kills: u64,
}

/// What is known of a run now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunView {
    pub(crate) state: ExecutableState,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) ending: Option<Ending>,
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
            cpu_user: Duration::ZERO,
            cpu_system: Duration::ZERO,
            memory_peak_bytes: 0,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state == ExecutableState::Exited
    }
}

/// One run of an executable.
pub(crate) struct Executable {
    pub(crate) spec: ExecutableSpec,
    /// Unix nanoseconds of its start; greater for later runs.
    pub(crate) run: u64,
    /// As the node sees it; 0 when nobody saw it.
    pub(crate) pid: i64,
    pub(crate) folder: PathBuf,
    pub(super) group: RunGroup,
    pub(super) out_of_memory_kills: u64,
    view: watch::Sender<RunView>,
}

impl Executable {
    pub(super) fn new(
        asked: Asked,
        run: u64,
        pid: i32,
        folder: PathBuf,
        group: RunGroup,
        view: RunView,
    ) -> Self {
        Self {
            spec: asked.spec,
            run,
            pid: pid.into(),
            folder,
            group,
            out_of_memory_kills: asked.out_of_memory_kills,
            view: watch::Sender::new(view),
        }
    }

    /// What is known now.
    pub(crate) fn view(&self) -> RunView {
        *self.view.borrow()
    }

    /// What is known, and news of it.
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

    pub(super) fn set_stopping(&self) {
        self.view.send_if_modified(|view| {
            let may = view.state.may_become(ExecutableState::Stopping);
            if may {
                view.state = ExecutableState::Stopping;
            }
            may
        });
    }

    /// Takes in the end its init wrote down. Where the init died before it
    /// could, the run counts as lost now.
    pub(super) fn set_ended(&self, record: Option<&RunRecord>, now_ns: u64) {
        let (ending, ended_ns) = match record.map(|r| (r.state, r.verdict, r.ended_ns)) {
            Some((RunState::Ended(_), Some(Verdict::OutOfMemory), at)) => (Ending::OutOfMemory, at),
            Some((RunState::Ended(ending), _, at)) => (ending, at),
            _ => (Ending::Lost, now_ns),
        };
        self.view.send_if_modified(|view| {
            let may = view.state.may_become(ExecutableState::Exited);
            if may {
                view.state = ExecutableState::Exited;
                view.ending = Some(ending);
                view.ended_ns = ended_ns;
                if let Some(record) = record {
                    view.started_ns = record.started_ns;
                    view.cpu_user = record.cpu_user;
                    view.cpu_system = record.cpu_system;
                    view.memory_peak_bytes = record.memory_peak_bytes;
                }
            }
            may
        });
    }
}
