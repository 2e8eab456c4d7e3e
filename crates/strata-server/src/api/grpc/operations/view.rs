//! An operation as a stream of states: SCHEDULED while it waits its turn,
//! ACTIVE with each step and what it reports, then how it ended.
//!
//! A client that reads slowly sees the latest state, and still every step:
//! records keep all of them, so those that were missed are sent from there.

use std::collections::VecDeque;
use std::pin::Pin;

use futures_util::{Stream, StreamExt as _};
use serde::Deserialize as _;
use strata_api::operations::v1::{
    CreateBackupResponse, CreateHypervisorResponse, DestroyHypervisorResponse,
    ExpandStorageResponse, OperationState, ShrinkStorageResponse,
};
use strata_api::status_from_error;
use strata_types::Result;
use strata_types::backup::Backup;
use strata_workflow::{Kind as _, Operation, OperationId, Operations, Snapshots, State, StepPhase};
use tonic::Status;

use crate::operations::{CreateHypervisor, DestroyHypervisor, amount, public, step_label};

/// What a stream carries.
pub(super) type Answer<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// One message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgressMessage {
    state: OperationState,
    msg: String,
    operation: String,
}

macro_rules! tell {
    ($($response:ident),*) => {$(
        impl From<ProgressMessage> for $response {
            fn from(told: ProgressMessage) -> Self {
                Self { state: told.state.into(), msg: told.msg, operation: Some(told.operation).filter(|it| !it.is_empty()) }
            }
        }
    )*};
}

tell!(
    CreateHypervisorResponse,
    DestroyHypervisorResponse,
    ExpandStorageResponse,
    ShrinkStorageResponse,
    CreateBackupResponse
);

/// A view on an operation.
pub(super) enum OperationProgress {
    /// There was nothing to do.
    Done(String),
    /// One that is followed.
    Follow(Box<Snapshots>, String),
}

impl OperationProgress {
    /// Nothing had to be done.
    pub(super) fn done(why: String) -> Self {
        Self::Done(why)
    }

    pub(super) async fn of(operations: &Operations, id: OperationId) -> Result<Self> {
        let snapshots = operations.watch(id).await;
        let snapshots = snapshots.map_err(|error| public(&error))?;
        let waits_for = operations.waits_for(id).await.unwrap_or_default();
        let waits_for: Vec<_> = waits_for.iter().map(ToString::to_string).collect();
        let why = match waits_for.is_empty() {
            true => "it begins at once".to_owned(),
            false => format!("it waits for operation {}", waits_for.join(", ")),
        };
        Ok(Self::Follow(Box::new(snapshots), why))
    }

    /// As messages, to the end.
    pub(super) fn stream<T: From<ProgressMessage> + Send + 'static>(self) -> Answer<T> {
        match self {
            Self::Done(msg) => {
                let message = ProgressMessage {
                    state: OperationState::Completed,
                    msg,
                    operation: String::new(),
                };
                Box::pin(futures_util::stream::iter([Ok(message.into())]))
            }
            Self::Follow(snapshots, why) => {
                let seen = SentProgress {
                    scheduled: Some(why),
                    ..SentProgress::default()
                };
                let state = (*snapshots, seen, VecDeque::new());
                Box::pin(futures_util::stream::unfold(state, next))
            }
        }
    }
}

async fn next<T: From<ProgressMessage>>(
    (mut snapshots, mut seen, mut queue): (Snapshots, SentProgress, VecDeque<ProgressMessage>),
) -> Option<(
    Result<T, Status>,
    (Snapshots, SentProgress, VecDeque<ProgressMessage>),
)> {
    loop {
        if let Some(told) = queue.pop_front() {
            return Some((Ok(told.into()), (snapshots, seen, queue)));
        }
        match snapshots.next().await? {
            Ok(operation) => queue.extend(seen.render(&operation)),
            Err(error) => {
                let status = status_from_error(&public(&error));
                return Some((Err(status), (snapshots, seen, queue)));
            }
        }
    }
}

/// What was sent already.
#[derive(Default)]
struct SentProgress {
    /// Sent once, if it is seen to wait at all.
    scheduled: Option<String>,
    /// Of each step, the last text.
    steps: Vec<String>,
}

impl SentProgress {
    /// What is new in a snapshot.
    fn render(&mut self, operation: &Operation) -> Vec<ProgressMessage> {
        let message = |state, msg: String| ProgressMessage {
            state,
            msg,
            operation: operation.id.to_string(),
        };
        let mut news = Vec::new();
        if let Some(why) = self.scheduled.take() {
            // Every operation has waited, be it for no time at all.
            news.push(message(OperationState::Scheduled, why));
        }
        for (i, step) in operation.steps.iter().enumerate() {
            let name = step_label(&step.name);
            let text = match (&step.phase, step.progress()) {
                (StepPhase::Undoing { .. }, _) => format!("{name}: undoing it"),
                (StepPhase::Undone { .. }, _) => format!("{name}: undone"),
                (StepPhase::Stuck { .. }, _) => format!("{name}: cannot be undone"),
                (StepPhase::Running { .. }, Some(progress)) => {
                    format!("{name}: {}", progress.text)
                }
                (StepPhase::Running { .. }, None) => name.to_owned(),
                (StepPhase::Done { .. }, _) => format!("{name}: done"),
            };
            match self.steps.get_mut(i) {
                Some(last) if *last == text => continue,
                Some(last) => last.clone_from(&text),
                None => self.steps.push(text.clone()),
            }
            news.push(message(OperationState::Active, text));
        }
        match &operation.state {
            State::Completed { .. } => {
                let msg = done(operation);
                news.push(message(OperationState::Completed, msg));
            }
            State::Failed { .. } => {
                let reason = operation.reason();
                let msg = reason.map_or_else(String::new, ToString::to_string);
                news.push(message(OperationState::Failed, msg));
            }
            State::Scheduled | State::Active { .. } | State::Unwinding { .. } => {}
        }
        news
    }
}

/// What the steps of a shrink could not release of what was planned.
fn kept_bytes(operation: &Operation) -> u64 {
    let kept = operation.steps.iter().filter_map(|step| match &step.phase {
        StepPhase::Done { output, .. } => output.get("keptBytes")?.as_u64(),
        _ => None,
    });
    kept.sum()
}

/// What came of an operation, with its figures where it has some.
fn done(operation: &Operation) -> String {
    let kind = &operation.kind;
    let output = |step: &str| {
        let step = operation.steps.iter().find(|one| one.name == step)?;
        match &step.phase {
            StepPhase::Done { output, .. } => Some(output),
            _ => None,
        }
    };
    let figure = |name: &str| output("plan")?.get(name)?.as_u64();
    let machine = operation.input.get("machine").and_then(|one| one.as_str());
    match (kind.as_str(), machine) {
        (CreateHypervisor::NAME, Some(machine)) => {
            return format!("{kind} is done: {machine} is up and takes instances");
        }
        (DestroyHypervisor::NAME, Some(machine)) => {
            return format!("{kind} is done: {machine} is off and released");
        }
        _ => {}
    }
    let saved = output("save").and_then(|saved| Backup::deserialize(saved).ok());
    if let Some(saved) = saved {
        let (volumes, new) = (saved.volumes.len(), amount(saved.new_bytes));
        let (id, all) = (saved.id.get(..8).unwrap_or(&saved.id), amount(saved.bytes));
        return format!("{kind} is done: backup {id} of {volumes} volumes, {all}, {new} of it new");
    }
    if let Some(planned) = figure("lostBytes") {
        let kept = kept_bytes(operation);
        let lost = planned.saturating_sub(kept);
        let free = figure("freeBytes").unwrap_or_default() + kept;
        return format!(
            "{kind} is done: {lost} bytes ({}) were released, {} are free",
            amount(lost),
            amount(free)
        );
    }
    match figure("gainedBytes") {
        Some(gained) => format!(
            "{kind} is done: {gained} bytes ({}) were gained",
            amount(gained)
        ),
        None => format!("{kind} is done"),
    }
}
