//! Tasks whose loss costs one caller only: logged, and not started again.

use std::panic::resume_unwind;

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::panics::{catch, message};
use crate::scope::{self, scoped};

/// Starts a task of one request, one connection or one object that is waited
/// for by its owner. A panic is logged with the task's name; the handle answers
/// with it as that of `tokio::spawn` does.
pub fn spawn_detached<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    spawn_detached_on(&Handle::current(), name, future)
}

/// The same on another runtime.
#[expect(clippy::disallowed_methods, reason = "this is the replacement")]
pub fn spawn_detached_on<F>(
    runtime: &Handle,
    name: &'static str,
    future: F,
) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let task = runtime.spawn(log_panics(name, future));
    scope::started(|| task.abort_handle());
    task
}

/// Logs a panic of `future`, which then goes on: for tasks of a `JoinSet` or a
/// `TaskTracker`, whose owner looks at the outcome or has no need to.
pub fn log_panics<F: Future>(
    name: &'static str,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    scoped(catch(future)).map(move |outcome| {
        outcome.unwrap_or_else(|payload| {
            tracing::error!(task = name, message = message(&payload), "task panicked");
            resume_unwind(payload)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn handle_of_a_detached_task_answers_with_its_output_or_its_panic() {
        assert_eq!(spawn_detached("sum", async { 1 + 1 }).await.unwrap(), 2);
        let panicked = spawn_detached("broken", async { panic!("no") }).await;
        assert!(panicked.map(|(): ()| ()).unwrap_err().is_panic());
    }

    #[test]
    fn supervised_future_is_hardly_larger_than_the_future() {
        let future = async {
            let buffer = [0_u8; 4096];
            tokio::task::yield_now().await;
            buffer.len()
        };
        let alone = size_of_val(&future);
        assert!(size_of_val(&log_panics("large", future)) < alone + 64);
    }
}
