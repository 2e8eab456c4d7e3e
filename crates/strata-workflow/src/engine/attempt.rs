//! One attempt at one step or its undo, with everything that can end it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::run::Run;
use crate::journal::{Journal, JournalError};
use crate::step::{Action, Retry};
use crate::step_context::StepScope;
use crate::{Outputs, Progress, StepError};

/// What is to be attempted.
pub(super) struct Work<'a> {
    /// The index of the step.
    pub(super) step: usize,
    pub(super) action: &'a Action<StepScope>,
    pub(super) timeout: Duration,
    pub(super) retry: Retry,
    /// Reports the step that it is to be cancelled.
    pub(super) cancel: &'a CancellationToken,
}

impl Run {
    /// Attempts it as often as it may be. A transient error comes out only
    /// when there is no attempt left.
    pub(super) async fn attempts(
        &mut self,
        work: &Work<'_>,
    ) -> Result<Result<Value, StepError>, JournalError> {
        let outputs = Arc::new(self.journal.operation().outputs());
        let mut attempt = 1;
        loop {
            let error = match self.attempt(work, attempt, &outputs).await? {
                Err(StepError::Transient { message }) => message,
                result => return Ok(result),
            };
            let Some(pause) = work.retry.pause_after(attempt) else {
                return Ok(Err(StepError::Transient { message: error }));
            };
            attempt += 1;
            self.journal
                .apply(|it, _| it.note_retry(work.step, attempt, &error))
                .await?;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = work.cancel.cancelled() => return Ok(Err(StepError::Cancelled)),
            }
        }
    }

    async fn attempt(
        &mut self,
        work: &Work<'_>,
        attempt: u32,
        outputs: &Arc<Outputs>,
    ) -> Result<Result<Value, StepError>, JournalError> {
        let operation = self.journal.operation();
        let (progress, reported) = watch::channel(None);
        let scope = StepScope {
            operation: operation.id,
            step: operation.steps[work.step].name.clone(),
            attempt,
            outputs: Arc::clone(outputs),
            progress,
            cancel: work.cancel.clone(),
            parking: Arc::clone(&self.parking),
        };
        // The call itself may panic, too, before it gives a future.
        let call = AssertUnwindSafe(async { (work.action)(scope).await }).catch_unwind();
        let every = self.progress_every;
        let written = write_progress(&mut self.journal, work.step, reported, every);
        tokio::select! {
            biased;
            done = tokio::time::timeout(work.timeout, call) => Ok(match done {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => Err(StepError::Permanent { message: panic_message(panic.as_ref()) }),
                Err(_) => Err(StepError::Transient {
                    message: format!("not done after {:?}", work.timeout),
                }),
            }),
            error = written => Err(error),
        }
    }
}

/// Writes what a step reports, not too often. It ends only if it cannot.
async fn write_progress(
    journal: &mut Journal,
    step: usize,
    mut reported: watch::Receiver<Option<Progress>>,
    every: Duration,
) -> JournalError {
    while reported.changed().await.is_ok() {
        let latest = reported.borrow_and_update().clone();
        let Some(mut latest) = latest else { continue };
        latest.text = crate::log::cut(latest.text);
        let written = journal
            .apply(|it, _| it.progress(step, latest.clone()))
            .await;
        if let Err(error) = written {
            return error;
        }
        tokio::time::sleep(every).await;
    }
    std::future::pending().await
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the step panicked: {}", text.unwrap_or("without a word"))
}
