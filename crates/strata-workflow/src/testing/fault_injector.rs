//! A kind that does its steps otherwise than it should.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

use crate::registry::{AnyKind, AnyStep};
use crate::step::Action;
use crate::step_context::StepScope;
use crate::{Claim, Operations, Outputs, StepError};

/// When a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
}

/// What to do otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultInjector {
    pub(super) do_times: u32,
    pub(super) undo_times: u32,
    pub(super) fail: Option<(usize, When)>,
    pub(super) cancel: Option<usize>,
}

impl Default for FaultInjector {
    fn default() -> Self {
        Self {
            do_times: 1,
            undo_times: 1,
            fail: None,
            cancel: None,
        }
    }
}

pub(super) struct InjectedKind {
    pub(super) kind: Arc<dyn AnyKind>,
    pub(super) fault_injector: FaultInjector,
    /// To cancel by, once there is one.
    pub(super) operations: Arc<OnceLock<Operations>>,
}

impl AnyKind for InjectedKind {
    fn claims(&self, input: &Value) -> Result<Vec<Claim>, serde_json::Error> {
        self.kind.claims(input)
    }

    fn plan(&self, input: &Value, outputs: &Outputs) -> Result<Vec<AnyStep>, StepError> {
        let steps = self.kind.plan(input, outputs)?;
        let steps = steps.into_iter().enumerate();
        Ok(steps.map(|(n, step)| self.change(n, step)).collect())
    }
}

impl InjectedKind {
    fn change(&self, index: usize, mut step: AnyStep) -> AnyStep {
        let fails = |wanted| self.fault_injector.fail == Some((index, wanted));
        step.run = several(step.run, self.fault_injector.do_times);
        if fails(When::Before) {
            step.run = Arc::new(|_| Box::pin(async { Err(reported()) }));
        }
        if fails(When::After) {
            let run = step.run;
            step.run = Arc::new(move |scope| {
                let work = run(scope);
                Box::pin(async move { Err(work.await.map_or_else(|error| error, |_| reported())) })
            });
        }
        if self.fault_injector.cancel == Some(index) {
            step.run = self.cancelling(step.run);
        }
        step.undo = step
            .undo
            .map(|undo| several(undo, self.fault_injector.undo_times));
        step.limits.retry.first_pause = Duration::ZERO;
        step
    }

    fn cancelling(&self, run: Action<StepScope>) -> Action<StepScope> {
        let operations = Arc::clone(&self.operations);
        Arc::new(move |scope| {
            let operations = Arc::clone(&operations);
            let run = Arc::clone(&run);
            Box::pin(async move {
                let id = scope.operation;
                if let Some(operations) = operations.get() {
                    let asked = operations.cancel(id, "trial").await;
                    asked.map_err(StepError::permanent)?;
                }
                scope.cancel.cancelled().await;
                run(scope).await
            })
        })
    }
}

/// The action so many times; each must answer the same.
fn several(action: Action<StepScope>, times: u32) -> Action<StepScope> {
    Arc::new(move |scope| {
        let action = Arc::clone(&action);
        Box::pin(async move {
            let first = action(scope.clone()).await?;
            for _ in 1..times {
                let again = action(scope.clone()).await?;
                if again != first {
                    let message = format!("it answered {first}, and done again {again}");
                    return Err(StepError::Permanent { message });
                }
            }
            Ok(first)
        })
    })
}

fn reported() -> StepError {
    StepError::Permanent {
        message: "injected failure".into(),
    }
}
