//! What components start tasks with.

use strata_types::{Backoff, BackoffPolicy};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::detached::log_panics;
use crate::panics::{catch, message};
use crate::scope::{self, scoped};
use crate::stats::OnPanic;
use crate::tasks::StageTasks;
use crate::{Stage, TaskFailure, Tasks};

/// Waits between two runs. The first is short, since most panics depend on
/// timing or on one record; the longest leaves the processor to the others
/// when a panic comes again at once.
const RESTARTS: BackoffPolicy = BackoffPolicy {
    first: std::time::Duration::from_millis(100),
    longest: std::time::Duration::from_secs(30),
    good: std::time::Duration::from_secs(60),
};

/// A stage of the shutdown and the tasks in it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TaskGroup {
    tasks: Tasks,
    stage: Stage,
    own: StageTasks,
    /// The current one when none.
    runtime: Option<Handle>,
}

impl From<CancellationToken> for TaskGroup {
    /// A group of its own that is stopped by `shutdown`, for a component that
    /// is used without a daemon.
    fn from(shutdown: CancellationToken) -> Self {
        let own = StageTasks {
            shutdown,
            ..Default::default()
        };
        Self::new(Tasks::default(), Stage::Controllers, own)
    }
}

impl From<&TaskGroup> for TaskGroup {
    fn from(group: &TaskGroup) -> Self {
        group.clone()
    }
}

impl TaskGroup {
    pub(crate) fn new(tasks: Tasks, stage: Stage, own: StageTasks) -> Self {
        Self {
            tasks,
            stage,
            own,
            runtime: None,
        }
    }

    /// The same group, whose tasks run on another runtime.
    #[must_use]
    pub fn on(&self, runtime: Handle) -> Self {
        Self {
            runtime: Some(runtime),
            ..self.clone()
        }
    }

    /// Cancelled when the group is stopped.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.own.shutdown
    }

    /// Starts a task that begins again after a panic: `make` makes each run
    /// from its inputs. A run that returns is the last. On shutdown it is
    /// dropped where it waits.
    pub fn restart<F, R>(&self, name: &'static str, make: F) -> AbortHandle
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let (shutdown, runs) = (self.own.shutdown.clone(), self.runs(name, make));
        self.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = runs => {}
            }
        })
    }

    /// The same for a task that has something to finish on shutdown: its runs
    /// end by themselves when [`TaskGroup::shutdown`] is cancelled.
    pub fn restart_until_done<F, R>(&self, name: &'static str, make: F) -> AbortHandle
    where
        F: FnMut() -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.spawn(self.runs(name, make))
    }

    /// Starts a task without which the process has to end: it owns what cannot
    /// be had a second time. It ends by itself on shutdown.
    pub fn critical<R>(&self, name: &'static str, run: R) -> AbortHandle
    where
        R: Future<Output = ()> + Send + 'static,
    {
        let tasks = self.tasks.clone();
        let counters = tasks.0.stats.of(name, self.stage, OnPanic::Exit);
        self.spawn(async move {
            let _running = counters.run();
            if let Err(payload) = catch(tasks.0.faults.inject(name, run)).await {
                let message = message(&payload).to_owned();
                tracing::error!(task = name, message, "task panicked; the process ends");
                counters.panicked();
                tasks.fail(TaskFailure {
                    task: name,
                    message,
                });
            }
        })
    }

    /// Starts a task whose panic is logged and costs one caller, connection or
    /// object, and whose end the shutdown waits for.
    pub fn detached<R>(&self, name: &'static str, run: R) -> AbortHandle
    where
        R: Future<Output = ()> + Send + 'static,
    {
        self.spawn(log_panics(name, run))
    }

    /// One run after the other until one returns.
    fn runs<F, R>(&self, name: &'static str, mut make: F) -> impl Future<Output = ()> + use<F, R>
    where
        F: FnMut() -> R,
        R: Future<Output = ()>,
    {
        let (tasks, shutdown) = (self.tasks.clone(), self.own.shutdown.clone());
        let counters = tasks.0.stats.of(name, self.stage, OnPanic::Restart);
        async move {
            let mut backoff = Backoff::default();
            loop {
                let (began, running) = (Instant::now(), counters.run());
                let run = async { make().await };
                let Err(payload) = catch(tasks.0.faults.inject(name, run)).await else {
                    return;
                };
                drop(running);
                counters.panicked();
                let restart_in = backoff.after_run(RESTARTS, began.elapsed());
                let message = message(&payload);
                tracing::error!(task = name, message, ?restart_in, "task panicked");
                drop(payload);
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(restart_in) => counters.restarted(),
                }
            }
        }
    }

    fn spawn<R>(&self, task: R) -> AbortHandle
    where
        R: Future<Output = ()> + Send + 'static,
    {
        let task = scoped(task);
        let spawned = match &self.runtime {
            Some(runtime) => self.own.tracker.spawn_on(task, runtime),
            None => self.own.tracker.spawn(task),
        };
        scope::started(|| spawned.abort_handle());
        spawned.abort_handle()
    }
}

#[cfg(test)]
mod tests;
