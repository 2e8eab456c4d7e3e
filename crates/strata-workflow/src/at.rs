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
    /// For people.
    pub text: String,
    /// From 0 to 1, where it is known.
    pub fraction: Option<f64>,
}

/// Where a step stands while it runs or is undone.
pub struct At<K: Kind> {
    /// What the registrant gave for the steps to work with.
    pub context: Arc<K::Context>,
    /// What the operation was asked to do.
    pub input: Arc<K::Input>,
    pub(crate) scene: Scene,
}

impl<K: Kind> Clone for At<K> {
    fn clone(&self) -> Self {
        Self {
            context: Arc::clone(&self.context),
            input: Arc::clone(&self.input),
            scene: self.scene.clone(),
        }
    }
}

/// The part of [`At`] that is the same for every kind.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) operation: OperationId,
    pub(crate) step: String,
    pub(crate) attempt: u32,
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) progress: watch::Sender<Option<Progress>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) parking: Arc<Parking>,
}

impl<K: Kind> At<K> {
    /// The operation: what its steps make is named after it.
    pub fn operation(&self) -> OperationId {
        self.scene.operation
    }

    /// The name of this step.
    pub fn step(&self) -> &str {
        &self.scene.step
    }

    /// Which attempt this is; the first is 1.
    pub fn attempt(&self) -> u32 {
        self.scene.attempt
    }

    /// What the steps before have answered. In an undo, what this step itself
    /// answered is among it, if it got that far.
    pub fn outputs(&self) -> &Outputs {
        &self.scene.outputs
    }

    /// What an earlier step answered.
    pub fn output<T: DeserializeOwned>(&self, step: &str) -> Result<T, StepError> {
        self.scene.outputs.get(step)
    }

    /// Tells how far it is. Cheap; whoever watches sees the latest, a few
    /// times per second.
    pub fn progress(&self, text: impl Into<String>) {
        self.report(text.into(), None);
    }

    /// Tells how far it is, as a fraction from 0 to 1, too.
    pub fn progress_to(&self, fraction: f64, text: impl Into<String>) {
        let fraction = fraction.is_finite().then(|| fraction.clamp(0.0, 1.0));
        self.report(text.into(), fraction);
    }

    fn report(&self, text: String, fraction: Option<f64>) {
        self.scene
            .progress
            .send_replace(Some(Progress { text, fraction }));
    }

    /// Whether somebody wants the operation cancelled. Never so in an undo.
    pub fn is_cancelled(&self) -> bool {
        self.scene.cancel.is_cancelled()
    }

    /// The same as a token, for work that takes one. Never cancelled in an undo.
    pub fn cancellation(&self) -> CancellationToken {
        self.scene.cancel.child_token()
    }

    /// Waits until somebody wants the operation cancelled.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.scene.cancel.clone().cancelled_owned()
    }

    /// Waits for something that others do. Meanwhile the operation does not
    /// count among those that run at the same time, so that what it waits for
    /// can begin, also when that is another operation.
    pub async fn wait_for<F: Future>(&self, something: F) -> F::Output {
        let _parked = self.scene.parking.park();
        something.await
    }

    /// A safe point: `at.safe_point()?` leaves the step here if the operation
    /// is to be cancelled. A step without one is cancelled when it is over.
    pub fn safe_point(&self) -> Result<(), StepError> {
        if self.is_cancelled() {
            return Err(StepError::Cancelled);
        }
        Ok(())
    }
}
