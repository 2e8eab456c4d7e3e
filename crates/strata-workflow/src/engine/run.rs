//! One operation that runs: from where its record says to where it rests.
//!
//! The loop reads the record, does what is next and records it, and reads
//! again. It keeps no state that is not in the record, so it does not matter
//! whether it is the first to run the operation or the tenth after a crash.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::attempt::Work;
use crate::journal::{Journal, JournalError, JournalWriter};
use crate::log::cut;
use crate::operation::{NextAction, NextStep};
use crate::parking::Parking;
use crate::records::StoredOperation;
use crate::registry::{AnyKind, AnyStep};
use crate::{
    Operation, OperationId, Outputs, Reason, Registry, StepError, StepPhase, WorkflowError,
};

/// What the steps of one operation may answer in all, in bytes: the record
/// must fit into the store.
const MAX_OUTPUT_BYTES: usize = 512 << 10;

/// One operation that runs.
pub(super) struct Run {
    pub(super) journal: Journal,
    kind: Arc<dyn AnyKind>,
    cancel: CancellationToken,
    pub(super) progress_every: Duration,
    pub(super) parking: Arc<Parking>,
}

/// Runs an operation until there is nothing to do for it now.
pub(super) async fn run(
    writer_handle: JournalWriter,
    id: OperationId,
    registry: Arc<Registry>,
    cancel: CancellationToken,
    progress_every: Duration,
    parking: Arc<Parking>,
) -> Result<StoredOperation, JournalError> {
    let journal = Journal::open(writer_handle, id).await?;
    let kind = journal.operation().kind.clone();
    let Some(kind) = registry.find(&kind) else {
        return Err(JournalError::Refused(WorkflowError::UnknownKind { kind }));
    };
    let run = Run {
        journal,
        kind,
        cancel,
        progress_every,
        parking,
    };
    run.run_until_idle().await
}

impl Run {
    async fn run_until_idle(mut self) -> Result<StoredOperation, JournalError> {
        self.journal.take_over().await?;
        loop {
            match self.journal.operation().next_action() {
                NextAction::Rest => break,
                NextAction::Advance => {
                    let next_step = self.next_step(&self.journal.operation().outputs());
                    self.journal
                        .apply(|it, now_ms| it.advance(next_step.clone(), now_ms))
                        .await?;
                }
                NextAction::Do(step) => self.do_step(step).await?,
                NextAction::Unwind => self.unwind(Reason::Cancelled { by: String::new() }).await?,
                NextAction::Undo(step) => {
                    if !self.undo_step(step).await? {
                        break;
                    }
                }
            }
        }
        Ok(self.journal.into_stored())
    }

    async fn unwind(&mut self, reason: Reason) -> Result<(), JournalError> {
        self.journal
            .apply(|it, now_ms| it.unwind(reason.clone(), now_ms))
            .await
    }

    async fn do_step(&mut self, step: usize) -> Result<(), JournalError> {
        let planned = match self.plan(&self.journal.operation().outputs()) {
            Ok(mut plan) => plan.swap_remove(step),
            Err(reason) => return self.unwind(reason).await,
        };
        let cancel = self.cancel.clone();
        let work = Work {
            step,
            action: &planned.run,
            timeout: planned.limits.timeout,
            retry: planned.limits.retry,
            cancel: &cancel,
        };
        let result = self.attempts(&work).await?;
        match result.and_then(|output| self.fits(output)) {
            Ok(output) => {
                let mut outputs = self.journal.operation().outputs();
                outputs.insert(&planned.name, output.clone());
                let next_step = self.next_step(&outputs);
                self.journal
                    .apply(|it, now| it.done(step, output.clone(), next_step.clone(), now))
                    .await
            }
            Err(error) => {
                let message = cut(error.to_string());
                let step = planned.name;
                self.unwind(Reason::Step { step, message }).await
            }
        }
    }

    /// Reports whether there is more to do: not if the step is stuck.
    async fn undo_step(&mut self, step: usize) -> Result<bool, JournalError> {
        let phase = &self.journal.operation().steps[step].phase;
        if !matches!(phase, StepPhase::Undoing { .. }) {
            self.journal.apply(|it, _| it.begin_undo_of(step)).await?;
        }
        let planned = match self.find(step) {
            Ok(planned) => planned,
            Err(message) => return self.stuck(step, message).await,
        };
        if let Some(undo) = &planned.undo {
            let never = CancellationToken::new();
            let work = Work {
                step,
                action: undo,
                timeout: planned.limits.undo_timeout,
                retry: planned.limits.retry,
                cancel: &never,
            };
            if let Err(error) = self.attempts(&work).await? {
                return self.stuck(step, error.to_string()).await;
            }
        }
        self.journal
            .apply(|it, now_ms| it.undone(step, now_ms))
            .await?;
        Ok(true)
    }

    async fn stuck(&mut self, step: usize, error: String) -> Result<bool, JournalError> {
        let error = cut(error);
        self.journal
            .apply(|it, now_ms| it.stuck(step, error.clone(), now_ms))
            .await?;
        Ok(false)
    }

    /// The step of the plan that this record is of.
    fn find(&self, step: usize) -> Result<AnyStep, String> {
        let operation = self.journal.operation();
        let name = &operation.steps[step].name;
        let plan = self.kind.plan(&operation.input, &operation.outputs());
        let mut plan = plan.map_err(|error| format!("cannot plan the steps: {error}"))?;
        match plan.iter().position(|planned| planned.name == *name) {
            Some(index) => Ok(plan.swap_remove(index)),
            None => Err("the operation kind has no such step any more".into()),
        }
    }

    /// All steps that are known, those that have begun first.
    fn plan(&self, outputs: &Outputs) -> Result<Vec<AnyStep>, Reason> {
        let operation = self.journal.operation();
        let plan = self.kind.plan(&operation.input, outputs);
        let plan = plan.map_err(|error| Reason::Plan {
            message: cut(error.to_string()),
        })?;
        let changed = plan_mismatch(operation, &plan);
        changed.map_or(Ok(plan), |message| Err(Reason::Plan { message }))
    }

    /// What comes after the steps that have begun.
    fn next_step(&self, outputs: &Outputs) -> NextStep {
        let begun = self.journal.operation().steps.len();
        match self.plan(outputs) {
            Err(reason) => NextStep::Unwind(reason),
            Ok(plan) => plan
                .into_iter()
                .nth(begun)
                .map_or(NextStep::Complete, |next| NextStep::Begin(next.name)),
        }
    }

    fn fits(&self, output: Value) -> Result<Value, StepError> {
        let steps = self.journal.operation().steps.iter();
        let known = steps.filter_map(|step| step.output());
        let size: usize = known.chain([&output]).map(|it| it.to_string().len()).sum();
        if size > MAX_OUTPUT_BYTES {
            return Err(StepError::Permanent {
                message: format!("the outputs have {size} bytes, {MAX_OUTPUT_BYTES} are allowed"),
            });
        }
        Ok(output)
    }
}

/// How the steps that have begun differ from the plan, which they must not.
fn plan_mismatch(operation: &Operation, plan: &[AnyStep]) -> Option<String> {
    operation.steps.iter().enumerate().find_map(|(n, begun)| {
        let planned = plan.get(n).map_or("nothing", |step| &step.name);
        (planned != begun.name)
            .then(|| format!("{} has begun where there is {planned} now", begun.name))
    })
}
