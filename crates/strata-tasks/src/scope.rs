//! Several processes in one, for the simulation (`strata-sim`): a task that is
//! started within a scope is of that scope, and so are the tasks that it
//! starts. So what the simulation pauses or kills are the tasks of one server
//! or one agent, whichever component started them. A daemon has no scopes, and
//! its tasks are spawned as they are.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::future::Either;
use tokio::task::AbortHandle;

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Scope>>> = const { RefCell::new(None) };
}

/// A simulated process.
pub trait Scope: Send + Sync + 'static {
    /// Whether its tasks run now. If not, `waker` is woken when they do again.
    fn runs(&self, waker: &Waker) -> bool;
    /// A task of it was started.
    fn started(&self, task: AbortHandle);
}

/// Runs `work`, whose tasks are of `scope`.
pub fn within<T>(scope: &Arc<dyn Scope>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.replace(Some(scope.clone())));
    work()
}

/// The scope that was current before, and is again.
struct Before(Option<Arc<dyn Scope>>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

pub(crate) fn current() -> Option<Arc<dyn Scope>> {
    CURRENT.with_borrow(Clone::clone)
}

/// A task that runs while its scope does.
pub(crate) struct Scoped<F> {
    scope: Arc<dyn Scope>,
    task: Pin<Box<F>>,
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if !self.scope.runs(context.waker()) {
            return Poll::Pending;
        }
        let scope = self.scope.clone();
        within(&scope, || self.task.as_mut().poll(context))
    }
}

/// `task`, as one of the current scope if there is one.
pub(crate) fn scoped<F: Future>(task: F) -> Either<F, Scoped<F>> {
    match current() {
        None => Either::Left(task),
        Some(scope) => Either::Right(Scoped {
            scope,
            task: Box::pin(task),
        }),
    }
}

/// A task was started.
pub(crate) fn started(task: impl FnOnce() -> AbortHandle) {
    if let Some(scope) = current() {
        scope.started(task());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;
    use crate::{Stage, Tasks, spawn_detached};

    #[derive(Default)]
    struct Process {
        paused: AtomicBool,
        waits: Mutex<Vec<Waker>>,
        tasks: Mutex<Vec<AbortHandle>>,
    }

    impl Scope for Process {
        fn runs(&self, waker: &Waker) -> bool {
            let paused = self.paused.load(Ordering::Relaxed);
            if paused {
                self.waits.lock().unwrap().push(waker.clone());
            }
            !paused
        }

        fn started(&self, task: AbortHandle) {
            self.tasks.lock().unwrap().push(task);
        }
    }

    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn tasks_of_tasks_stop_and_go_on_with_their_scope() {
        let process = Arc::new(Process::default());
        let scope: Arc<dyn Scope> = process.clone();
        let count = Arc::new(AtomicU32::default());
        let counting = count.clone();
        within(&scope, || {
            Tasks::default()
                .group(Stage::Api)
                .detached("first", async move {
                    drop(spawn_detached("second", async move {
                        loop {
                            counting.fetch_add(1, Ordering::Relaxed);
                            tokio::task::yield_now().await;
                        }
                    }));
                    std::future::pending::<()>().await;
                });
        });
        let runs = async || {
            let before = count.load(Ordering::Relaxed);
            settle().await;
            count.load(Ordering::Relaxed) > before
        };
        assert!(runs().await);
        process.paused.store(true, Ordering::Relaxed);
        settle().await;
        assert!(!runs().await, "it is paused");
        process.paused.store(false, Ordering::Relaxed);
        let waits: Vec<Waker> = process.waits.lock().unwrap().drain(..).collect();
        waits.into_iter().for_each(Waker::wake);
        assert!(runs().await);
        let tasks: Vec<AbortHandle> = process.tasks.lock().unwrap().drain(..).collect();
        assert_eq!(tasks.len(), 2, "both are known");
        tasks.iter().for_each(AbortHandle::abort);
        settle().await;
        assert!(!runs().await, "it is gone");
    }
}
