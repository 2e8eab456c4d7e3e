//! A simulated process: its tasks stop while it is paused, and are gone when it
//! is killed, wherever they are.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use strata_tasks::{Scope, spawn_detached, within};
use tokio::task::AbortHandle;

use crate::entropy;
use crate::env::Env;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    Paused,
    Dead,
}

struct State {
    mode: Mode,
    waiting: Vec<Waker>,
    tasks: Vec<AbortHandle>,
}

/// A process. Dead ones stay so: what starts again is another process.
pub(crate) struct Process {
    env: Arc<Env>,
    /// By how much its wall clock is ahead, in nanoseconds.
    ahead_ns: AtomicI64,
    state: Mutex<State>,
}

impl Process {
    pub(crate) fn new(env: &Arc<Env>) -> Arc<Self> {
        Arc::new(Self {
            env: env.clone(),
            ahead_ns: AtomicI64::new(0),
            state: Mutex::new(State {
                mode: Mode::Running,
                waiting: Vec::new(),
                tasks: Vec::new(),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` as part of this process: what it starts are tasks of it.
    pub(crate) fn within<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let scope: Arc<dyn Scope> = self.clone();
        within(&scope, work)
    }

    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.within(|| drop(spawn_detached(name, task)));
    }

    /// Runs `work` as part of this process, each time it is polled.
    pub(crate) async fn within_async<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            self.runs(context.waker());
            self.within(|| work.as_mut().poll(context))
        })
        .await
    }

    pub(crate) fn pause(&self) {
        let mut state = self.state();
        if state.mode == Mode::Running {
            state.mode = Mode::Paused;
        }
    }

    pub(crate) fn resume(&self) {
        let waiting = {
            let mut state = self.state();
            if state.mode != Mode::Paused {
                return;
            }
            state.mode = Mode::Running;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn kill(&self) {
        let (tasks, waiting) = {
            let mut state = self.state();
            state.mode = Mode::Dead;
            let tasks = std::mem::take(&mut state.tasks);
            (tasks, std::mem::take(&mut state.waiting))
        };
        tasks.iter().for_each(AbortHandle::abort);
        drop(waiting);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state().mode == Mode::Dead
    }

    /// Sets its wall clock ahead, or back.
    pub(crate) fn set_ahead(&self, ms: i64) {
        self.ahead_ns.store(ms * 1_000_000, Ordering::Relaxed);
    }
}

impl Scope for Process {
    fn runs(&self, waker: &Waker) -> bool {
        let ahead = self.ahead_ns.load(Ordering::Relaxed);
        entropy::set_time(self.env.elapsed(), ahead);
        let mut state = self.state();
        match state.mode {
            Mode::Running => true,
            Mode::Dead => false,
            Mode::Paused => {
                if !state.waiting.iter().any(|known| known.will_wake(waker)) {
                    state.waiting.push(waker.clone());
                }
                false
            }
        }
    }

    fn started(&self, task: AbortHandle) {
        let mut state = self.state();
        if state.mode == Mode::Dead {
            task.abort();
            return;
        }
        if state.tasks.len() >= 512 {
            state.tasks.retain(|task| !task.is_finished());
        }
        state.tasks.push(task);
    }
}
