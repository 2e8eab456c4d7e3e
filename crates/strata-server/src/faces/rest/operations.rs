//! `/operation/`: long actions, and those that begin one.

use axum::extract::State;
use axum::response::sse;
use futures_util::StreamExt as _;
use http::{HeaderValue, StatusCode};
use strata_api::rest::{self, DrainRequest, OperationStatus};
use strata_types::{Error, ErrorKind, Role};
use strata_workflow::{Filter, Kind, LogLine, Operation, OperationId, State as Stand, StepPhase};

use super::extract::{Asker, Json, Parameters, Thing};
use super::refusal::Answer;
use super::view::moment;
use super::{RestState, answer, json, watch};
use crate::core::{Page, Who, operation_key};
use crate::operations::{self, Drain, public};

const STATUSES: [OperationStatus; 4] = [
    OperationStatus::Scheduled,
    OperationStatus::Active,
    OperationStatus::Failed,
    OperationStatus::Completed,
];

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset", "state"])?;
    let wanted = parameters.one_of("state", &STATUSES, OperationStatus::as_str)?;
    let (limit, offset) = parameters.piece()?;
    let all = state.operations.list(&Filter::default()).await;
    let all = all.map_err(|error| public(&error))?;
    let all = all
        .iter()
        .filter(|one| wanted.is_none_or(|wanted| wanted == status(one)));
    let page = Page::of(all, offset, limit);
    answer::list(page.total, page.items.into_iter().map(tell))
}

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(id): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["watch"])?;
    let id = read(&id)?;
    if parameters.flag("watch")? {
        return follow(&state, id).await;
    }
    let found = state.operations.get(id).await;
    answer::json(&tell(&found.map_err(|error| public(&error))?))
}

pub(super) async fn log(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(id): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let lines = state.operations.log(read(&id)?).await;
    let lines = lines.map_err(|error| public(&error))?;
    answer::list(lines.len(), lines.into_iter().map(tell_line))
}

/// Cancels it: what it had done is undone.
pub(super) async fn cancel(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(id): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let id = read(&id)?;
    let found = state.operations.get(id).await;
    operations::authorize_cancel(&who, &found.map_err(|error| public(&error))?)?;
    let cancelled = state.operations.cancel(id, &who.name).await;
    cancelled.map_err(|error| public(&error))?;
    Ok(answer::accepted())
}

/// Empties a node.
pub(super) async fn drain(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(node): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: DrainRequest = json::parse(&body)?;
    if asked.leave && who.role != Role::Admin {
        let why = "only an admin may let a node leave";
        return Err(Error::new(ErrorKind::PermissionDenied, why).into());
    }
    let input = operations::drain_input(&state.core, &node, asked.leave)?;
    begin::<Drain>(&state, &who, &input).await
}

/// Begins a long action, and tells of it.
pub(super) async fn begin<K: Kind>(state: &RestState, who: &Who, input: &K::Input) -> Answer {
    who.everywhere()?;
    // Begun once, also when a server dies before it has answered.
    let key = operation_key();
    let submitted = state
        .operations
        .submit::<K>(input, &who.name, key.as_deref());
    let id = submitted.await;
    begun(state, id.map_err(|error| public(&error))?).await
}

/// Tells of a long action that was begun.
pub(super) async fn begun(state: &RestState, id: OperationId) -> Answer {
    let begun = state
        .operations
        .get(id)
        .await
        .map_err(|error| public(&error))?;
    let mut response = answer::json(&tell(&begun))?;
    *response.status_mut() = StatusCode::ACCEPTED;
    if let Ok(location) = HeaderValue::from_str(&format!("/operation/{id}")) {
        response
            .headers_mut()
            .insert(http::header::LOCATION, location);
    }
    Ok(response)
}

async fn follow(state: &RestState, id: OperationId) -> Answer {
    let snapshots = state.operations.watch(id).await;
    let snapshots = snapshots.map_err(|error| public(&error))?;
    let events = snapshots.filter_map(async |snapshot| {
        let text = answer::text(&tell(&snapshot.ok()?)).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Some(sse::Event::default().event("put").data(text))
    });
    Ok(watch::answer(state, events))
}

fn read(id: &str) -> Answer<OperationId> {
    let missing = || {
        let id: String = id.chars().take(80).collect();
        Error::not_found(format!("there is no operation {id}"))
    };
    Ok(id.parse().map_err(|_| missing())?)
}

fn status(operation: &Operation) -> OperationStatus {
    match operation.state {
        Stand::Scheduled => OperationStatus::Scheduled,
        Stand::Active { .. } | Stand::Unwinding { .. } => OperationStatus::Active,
        Stand::Completed { .. } => OperationStatus::Completed,
        Stand::Failed { .. } => OperationStatus::Failed,
    }
}

fn tell(operation: &Operation) -> rest::Operation {
    let step = operation.current_step();
    let progress = step.map(|step| match step.progress() {
        Some(progress) => format!("{}: {}", step.name, progress.text),
        None => step.name.clone(),
    });
    let message = match operation.reason() {
        Some(reason) => reason.to_string(),
        None => progress.unwrap_or_default(),
    };
    let leftovers = operation.leftovers().into_iter();
    rest::Operation {
        id: operation.id.to_string(),
        kind: operation.kind.clone(),
        status: status(operation),
        message,
        owner: operation.owner.clone(),
        about: operation
            .claims
            .iter()
            .map(|claim| claim.key.clone())
            .collect(),
        created_at: moment(operation.created_ms),
        ended_at: operation.ended_ms().map(moment),
        steps: operation.steps.iter().map(tell_step).collect(),
        leftovers: leftovers
            .map(|left| match left.error {
                Some(error) => format!("{}: {error}", left.step),
                None => left.step,
            })
            .collect(),
    }
}

fn tell_step(step: &strata_workflow::StepRecord) -> rest::OperationStep {
    let phase = match &step.phase {
        StepPhase::Running { .. } => "running",
        StepPhase::Done { .. } => "done",
        StepPhase::Undoing { .. } => "undoing",
        StepPhase::Undone { .. } => "undone",
        StepPhase::Stuck { .. } => "stuck",
    };
    let progress = step.progress();
    rest::OperationStep {
        name: step.name.clone(),
        phase: phase.to_owned(),
        progress: progress.map_or_else(String::new, |progress| progress.text.clone()),
        fraction: progress.and_then(|progress| progress.fraction),
    }
}

fn tell_line(line: LogLine) -> rest::OperationLine {
    rest::OperationLine {
        number: line.number,
        at: moment(line.at_ms),
        step: line.step,
        text: line.text,
    }
}
