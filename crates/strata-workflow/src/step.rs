//! One step: what it does, how it is undone, how long it may take, how often
//! it is tried.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use crate::{Kind, StepContext, StepError};

/// How often a step is tried, and how long is waited in between. Only
/// transient errors and timeouts are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often in all, at least once.
    pub attempts: u32,
    /// The first pause; each next is twice as long.
    pub first_pause: Duration,
    /// No pause is longer.
    pub longest_pause: Duration,
}

impl Retry {
    /// One attempt only.
    pub const NEVER: Self = Self {
        attempts: 1,
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
    };

    /// The pause after the given attempt (1 is the first), if there is another.
    pub(crate) fn pause_after(&self, attempt: u32) -> Option<Duration> {
        (attempt < self.attempts).then(|| {
            let doublings = attempt.saturating_sub(1).min(30);
            self.first_pause
                .saturating_mul(1 << doublings)
                .min(self.longest_pause)
        })
    }
}

impl Default for Retry {
    /// Five attempts within about three seconds.
    fn default() -> Self {
        Self {
            attempts: 5,
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(10),
        }
    }
}

pub(crate) type Action<A> =
    Arc<dyn Fn(A) -> BoxFuture<'static, Result<Value, StepError>> + Send + Sync>;

/// One step of an operation.
///
/// Both of its functions are **idempotent**: after a crash a step whose end
/// was not recorded is done again. What it makes gets names that follow from
/// [`StepContext::operation`] and the step, not from chance, so that the second time
/// finds what the first has made. The second time answers the same output.
///
/// The undo of a step is also called when the step failed, timed out or was
/// abandoned half-way. It copes with everything done, something done, and
/// nothing done.
pub struct Step<K: Kind> {
    pub(crate) name: String,
    pub(crate) run: Action<StepContext<K>>,
    pub(crate) undo: Option<Action<StepContext<K>>>,
    pub(crate) limits: Limits,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) timeout: Duration,
    pub(crate) undo_timeout: Duration,
    pub(crate) retry: Retry,
}

impl<K: Kind> Step<K> {
    /// A step that does this, with nothing to undo. What it returns is kept
    /// and can be read by later steps and by its own undo.
    pub fn new<F, Fut, T>(name: impl Into<String>, run: F) -> Self
    where
        F: Fn(StepContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, StepError>> + Send + 'static,
        T: Serialize,
    {
        Self {
            name: name.into(),
            run: action(run),
            undo: None,
            limits: Limits {
                timeout: Duration::from_secs(60),
                undo_timeout: Duration::from_secs(60),
                retry: Retry::default(),
            },
        }
    }

    /// How it is undone.
    #[must_use]
    pub fn undo<F, Fut>(mut self, undo: F) -> Self
    where
        F: Fn(StepContext<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), StepError>> + Send + 'static,
    {
        self.undo = Some(action(undo));
        self
    }

    /// How long one attempt may take, instead of a minute. It is abandoned
    /// then, at an await point, and tried again like after a transient error.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = timeout;
        self
    }

    /// The same for the undo.
    #[must_use]
    pub fn undo_timeout(mut self, timeout: Duration) -> Self {
        self.limits.undo_timeout = timeout;
        self
    }

    /// How often it and its undo are tried.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.limits.retry = retry;
        self
    }
}

fn action<A, F, Fut, T>(run: F) -> Action<A>
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, StepError>> + Send + 'static,
    T: Serialize,
{
    Arc::new(move |ctx| {
        let work = run(ctx);
        Box::pin(async move {
            let output = work.await?;
            serde_json::to_value(output).map_err(StepError::permanent)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_backoff_doubles_up_to_its_maximum() {
        let retry = Retry {
            attempts: 5,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(3),
        };
        let pauses: Vec<_> = (1..=5).map(|n| retry.pause_after(n)).collect();
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(
            pauses,
            [seconds(1), seconds(2), seconds(3), seconds(3), None]
        );
        assert_eq!(Retry::NEVER.pause_after(1), None);
    }
}
