//! The figures of each task, for monitoring.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Stage;

/// What follows when a task panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPanic {
    /// It is started again, after a back-off.
    Restart,
    Exit,
}

impl OnPanic {
    /// As monitoring reads it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Exit => "exit",
        }
    }
}

/// How the tasks of one name fare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    pub name: &'static str,
    /// When they are stopped.
    pub stage: Stage,
    /// What follows a panic.
    pub on_panic: OnPanic,
    /// How many run; one that waits for its restart does not.
    pub running: u64,
    /// How often one was started again.
    pub restarts: u64,
    /// How often one panicked.
    pub panics: u64,
}

/// The figures of all tasks of a daemon, by name.
#[derive(Debug, Default)]
pub(crate) struct Stats(Mutex<BTreeMap<&'static str, Arc<Counters>>>);

#[derive(Debug)]
pub(crate) struct Counters {
    stage: Stage,
    on_panic: OnPanic,
    running: AtomicU64,
    restarts: AtomicU64,
    panics: AtomicU64,
}

impl Stats {
    /// The counters of a name. Tasks of one name share them and are of one
    /// kind, which the first of them says.
    pub(crate) fn of(&self, name: &'static str, stage: Stage, on_panic: OnPanic) -> Arc<Counters> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = all.entry(name).or_insert_with(|| {
            Arc::new(Counters {
                stage,
                on_panic,
                running: AtomicU64::default(),
                restarts: AtomicU64::default(),
                panics: AtomicU64::default(),
            })
        });
        counters.clone()
    }

    pub(crate) fn snapshot(&self) -> Vec<TaskStatus> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |(name, counters): (&&'static str, &Arc<Counters>)| TaskStatus {
            name,
            stage: counters.stage,
            on_panic: counters.on_panic,
            running: counters.running.load(Ordering::Relaxed),
            restarts: counters.restarts.load(Ordering::Relaxed),
            panics: counters.panics.load(Ordering::Relaxed),
        };
        all.iter().map(status).collect()
    }
}

impl Counters {
    pub(crate) fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a run until the answer is dropped, also by an abort.
    pub(crate) fn run(&self) -> Run<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Run(self)
    }
}

pub(crate) struct Run<'a>(&'a Counters);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
