//! What a step sees of the operation it is part of.

use std::future::Future;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::parking::Parking;
use crate::{Kind, OperationId, Outputs, StepError};

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The text, for people.
    pub text: String,
    /// From 0 to 1, where it is known.
    pub fraction: Option<f64>,
}

/// Where a step stands while it runs or is undone.
pub struct StepContext<K: Kind> {
    /// What the registrant gave for the steps to work with.
    pub context: Arc<K::Context>,
    /// What the operation is to do.
    pub input: Arc<K::Input>,
    pub(crate) scope: StepScope,
}

impl<K: Kind> Clone for StepContext<K> {
    fn clone(&self) -> Self {
        Self {
            context: Arc::clone(&self.context),
            input: Arc::clone(&self.input),
            scope: self.scope.clone(),
        }
    }
}

/// The part of [`StepContext`] that is the same for every kind.
#[derive(Clone)]
pub(crate) struct StepScope {
    pub(crate) operation: OperationId,
    pub(crate) step: String,
    pub(crate) attempt: u32,
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) progress: watch::Sender<Option<Progress>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) parking: Arc<Parking>,
}

impl<K: Kind> StepContext<K> {
    /// The operation: what its steps make is named after it.
    pub fn operation(&self) -> OperationId {
        self.scope.operation
    }

    /// The name of this step.
    pub fn step(&self) -> &str {
        &self.scope.step
    }

    /// Which attempt this is; the first is 1.
    pub fn attempt(&self) -> u32 {
        self.scope.attempt
    }

    /// What the steps before have answered. In an undo, what this step itself
    /// answered is among it, if it got that far.
    pub fn outputs(&self) -> &Outputs {
        &self.scope.outputs
    }

    /// What an earlier step answered.
    pub fn output<T: DeserializeOwned>(&self, step: &str) -> Result<T, StepError> {
        self.scope.outputs.get(step)
    }

    /// Reports how far it is. Cheap; watchers see the latest, a few times per
    /// second.
    pub fn progress(&self, text: impl Into<String>) {
        self.report(text.into(), None);
    }

    /// Reports how far it is, as a fraction from 0 to 1, too.
    pub fn progress_to(&self, fraction: f64, text: impl Into<String>) {
        let fraction = fraction.is_finite().then(|| fraction.clamp(0.0, 1.0));
        self.report(text.into(), fraction);
    }

    fn report(&self, text: String, fraction: Option<f64>) {
        self.scope
            .progress
            .send_replace(Some(Progress { text, fraction }));
    }

    /// Whether a caller requested the cancellation. Never so in an undo.
    pub fn is_cancelled(&self) -> bool {
        self.scope.cancel.is_cancelled()
    }

    /// The same as a token, for work that takes one. Never cancelled in an undo.
    pub fn cancellation(&self) -> CancellationToken {
        self.scope.cancel.child_token()
    }

    /// Waits until a caller requests the cancellation.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.scope.cancel.clone().cancelled_owned()
    }

    /// Waits for something that others do. Meanwhile the operation does not
    /// count among those that run at the same time, so that what it waits for
    /// can begin, also when that is another operation.
    pub async fn wait_for<F: Future>(&self, something: F) -> F::Output {
        let _parked = self.scope.parking.park();
        something.await
    }

    /// A safe point: `ctx.safe_point()?` leaves the step here if the operation
    /// is to be cancelled. A step without one is cancelled when it is over.
    pub fn safe_point(&self) -> Result<(), StepError> {
        if self.is_cancelled() {
            return Err(StepError::Cancelled);
        }
        Ok(())
    }
}
