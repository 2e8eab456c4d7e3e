//! A kind that does its steps otherwise than it should.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

use crate::at::Scene;
use crate::registry::{AnyKind, AnyStep};
use crate::step::Action;
use crate::{Claim, Operations, Outputs, StepError};

/// When a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
}

/// What to do otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tamper {
    pub(super) do_times: u32,
    pub(super) undo_times: u32,
    pub(super) fail: Option<(usize, When)>,
    pub(super) cancel: Option<usize>,
}

impl Default for Tamper {
    fn default() -> Self {
        Self {
            do_times: 1,
            undo_times: 1,
            fail: None,
            cancel: None,
        }
    }
}

pub(super) struct Tampered {
    pub(super) kind: Arc<dyn AnyKind>,
    pub(super) tamper: Tamper,
    /// To cancel by, once there is one.
    pub(super) operations: Arc<OnceLock<Operations>>,
}

impl AnyKind for Tampered {
    fn claims(&self, input: &Value) -> Result<Vec<Claim>, serde_json::Error> {
        self.kind.claims(input)
    }

    fn plan(&self, input: &Value, outputs: &Outputs) -> Result<Vec<AnyStep>, StepError> {
        let steps = self.kind.plan(input, outputs)?;
        let steps = steps.into_iter().enumerate();
        Ok(steps.map(|(n, step)| self.change(n, step)).collect())
    }
}

impl Tampered {
    fn change(&self, index: usize, mut step: AnyStep) -> AnyStep {
        let at = |wanted| self.tamper.fail == Some((index, wanted));
        step.run = several(step.run, self.tamper.do_times);
        if at(When::Before) {
            step.run = Arc::new(|_| Box::pin(async { Err(told()) }));
        }
        if at(When::After) {
            let run = step.run;
            step.run = Arc::new(move |scene| {
                let work = run(scene);
                Box::pin(async move { Err(work.await.map_or_else(|error| error, |_| told())) })
            });
        }
        if self.tamper.cancel == Some(index) {
            step.run = self.cancelling(step.run);
        }
        step.undo = step.undo.map(|undo| several(undo, self.tamper.undo_times));
        step.limits.retry.first_pause = Duration::ZERO;
        step
    }

    fn cancelling(&self, run: Action<Scene>) -> Action<Scene> {
        let operations = Arc::clone(&self.operations);
        Arc::new(move |scene| {
            let operations = Arc::clone(&operations);
            let run = Arc::clone(&run);
            Box::pin(async move {
                let id = scene.operation;
                if let Some(operations) = operations.get() {
                    let asked = operations.cancel(id, "trial").await;
                    asked.map_err(StepError::permanent)?;
                }
                scene.cancel.cancelled().await;
                run(scene).await
            })
        })
    }
}

/// The action so many times; each must answer the same.
fn several(action: Action<Scene>, times: u32) -> Action<Scene> {
    Arc::new(move |scene| {
        let action = Arc::clone(&action);
        Box::pin(async move {
            let first = action(scene.clone()).await?;
            for _ in 1..times {
                let again = action(scene.clone()).await?;
                if again != first {
                    let message = format!("it answered {first}, and done again {again}");
                    return Err(StepError::Permanent { message });
                }
            }
            Ok(first)
        })
    })
}

fn told() -> StepError {
    StepError::Permanent {
        message: "told to fail".into(),
    }
}
