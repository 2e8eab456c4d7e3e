//! All tasks of one daemon: their figures, their stages, the failure of one
//! that the daemon cannot do without.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faults::Faults;
use crate::stats::Stats;
use crate::{Stage, TaskGroup, TaskStatus};

/// The tasks of a daemon. Cheap to clone; dropping it stops nothing.
#[derive(Clone, Debug)]
pub struct Tasks(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) stats: Stats,
    pub(crate) faults: Faults,
    failure: watch::Sender<Option<TaskFailure>>,
    stages: [StageTasks; Stage::ORDER.len()],
}

/// The tasks of one stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageTasks {
    pub(crate) shutdown: CancellationToken,
    pub(crate) tracker: TaskTracker,
}

/// A task without which the process has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// The name of the task.
    pub task: &'static str,
    /// What it panicked with.
    pub message: String,
}

impl std::fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {} panicked: {}", self.task, self.message)
    }
}

impl std::error::Error for TaskFailure {}

impl Default for Tasks {
    fn default() -> Self {
        Self::with(Faults::from_environment(), Default::default())
    }
}

impl Tasks {
    pub(crate) fn with(faults: Faults, stages: [StageTasks; Stage::ORDER.len()]) -> Self {
        Self(Arc::new(Inner {
            stats: Stats::default(),
            faults,
            failure: watch::Sender::new(None),
            stages,
        }))
    }

    /// The group of a stage: what a component starts its tasks with.
    pub fn group(&self, stage: Stage) -> TaskGroup {
        TaskGroup::new(self.clone(), stage, self.stage(stage).clone())
    }

    fn stage(&self, stage: Stage) -> &StageTasks {
        &self.0.stages[stage as usize]
    }

    /// How the tasks fare that are restarted or critical, by name.
    pub fn status(&self) -> Vec<TaskStatus> {
        self.0.stats.snapshot()
    }

    /// Waits until a critical task has panicked: the process has to end.
    pub async fn failed(&self) -> TaskFailure {
        let mut failure = self.0.failure.subscribe();
        match failure.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(failure)) => failure.clone(),
            // The sender is here, so it does not go.
            _ => std::future::pending().await,
        }
    }

    pub(crate) fn fail(&self, failure: TaskFailure) {
        // The first is the cause; what follows may come from it.
        self.0.failure.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(failure);
            first
        });
    }

    /// Stops the tasks of one stage, and waits for their end within its
    /// deadline; whether they ended.
    pub async fn stop(&self, stage: Stage) -> bool {
        let StageTasks { shutdown, tracker } = self.stage(stage);
        shutdown.cancel();
        tracker.close();
        let deadline = stage.deadline();
        let ended = tokio::time::timeout(deadline, tracker.wait()).await;
        if ended.is_err() {
            let late = self.status().into_iter();
            let late = late.filter(|task| task.stage == stage && task.running > 0);
            let late: Vec<_> = late.map(|task| task.name).collect();
            tracing::warn!(?stage, ?deadline, tasks = ?late, "tasks did not end before the deadline");
        }
        ended.is_ok()
    }
}
