//! `/operation/`: long actions, and those that begin one.

use axum::extract::State;
use axum::response::sse;
use futures_util::StreamExt as _;
use http::{HeaderValue, StatusCode};
use strata_api::rest::{self, DrainRequest, OperationStatus};
use strata_identity::policy::{OPERATE, READ};
use strata_types::{Error, ErrorKind, Role};
use strata_workflow::{Filter, Kind, LogLine, Operation, OperationId, State as Stand, StepPhase};

use super::extract::{Auth, Json, Parameters, ResourceId};
use super::rejection::Answer;
use super::route::{self, Noun};
use super::view::timestamp;
use super::{RestState, answer, json, watch};
use crate::core::{Page, Principal, operation_key};
use crate::operations::{self, Drain, public, step_label};

const STATUSES: [OperationStatus; 4] = [
    OperationStatus::Scheduled,
    OperationStatus::Active,
    OperationStatus::Failed,
    OperationStatus::Completed,
];

pub(super) fn routes() -> Noun {
    Noun::new(
        "operation",
        "Long-running operations, their steps and logs.",
    )
    .id("ID of the operation.")
    .routes([
        route::get("/operation", READ, list)
            .named("listOperations", "List operations")
            .about("Running and finished operations, ordered by ID.")
            .parameters(&["operation state"])
            .returns_pages::<rest::Operation>(),
        route::get("/operation/{id}", READ, show)
            .named("getOperation", "Get an operation")
            .about("Steps, progress and outcome of one operation.")
            .returns_watchable::<rest::Operation>(),
        route::delete("/operation/{id}", OPERATE, cancel)
            .named("cancelOperation", "Cancel an operation")
            .about("The operation stops and rolls back the steps it has done.")
            .deletes(),
        route::get("/operation/{id}/log", READ, log)
            .named("readOperationLog", "Read the log of an operation")
            .about("The log lines of one operation, oldest first.")
            .returns_list::<rest::OperationLine>(),
    ])
}

async fn list(State(state): State<RestState>, Auth(_): Auth, parameters: Parameters) -> Answer {
    parameters.deny_unknown(&["limit", "offset", "state"])?;
    let expected = parameters.one_of("state", &STATUSES, OperationStatus::as_str)?;
    let (limit, offset) = parameters.pagination()?;
    let all = state.operations.list(&Filter::default()).await;
    let all = all.map_err(|error| public(&error))?;
    let all = all
        .iter()
        .filter(|one| expected.is_none_or(|expected| expected == status(one)));
    let page = Page::of(all, offset, limit);
    answer::list(page.total, page.items.into_iter().map(render))
}

async fn show(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["watch"])?;
    let id = read(&id)?;
    if parameters.flag("watch")? {
        return follow(&state, id).await;
    }
    let found = state.operations.get(id).await;
    answer::json(&render(&found.map_err(|error| public(&error))?))
}

async fn log(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let lines = state.operations.log(read(&id)?).await;
    let lines = lines.map_err(|error| public(&error))?;
    answer::list(lines.len(), lines.into_iter().map(render_line))
}

/// Cancels it: what it had done is undone.
async fn cancel(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let id = read(&id)?;
    let found = state.operations.get(id).await;
    let found = found.map_err(|error| public(&error))?;
    let starting = super::access_to_start(&found.kind);
    operations::authorize_cancel(&principal, &found, starting)?;
    let cancelled = state.operations.cancel(id, &principal.name).await;
    cancelled.map_err(|error| public(&error))?;
    Ok(answer::accepted())
}

/// Empties a node.
pub(super) async fn drain(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(node): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: DrainRequest = json::parse(&body)?;
    if asked.leave && principal.role != Role::Admin {
        let why = "only an admin may let a node leave";
        return Err(Error::new(ErrorKind::PermissionDenied, why).into());
    }
    let input = operations::drain_input(&state.core, &node, asked.leave)?;
    begin::<Drain>(&state, &principal, &input).await
}

/// Begins a long action, and reports it.
pub(super) async fn begin<K: Kind>(
    state: &RestState,
    principal: &Principal,
    input: &K::Input,
) -> Answer {
    principal.require_all_projects()?;
    // Begun once, also when a server dies before it has answered.
    let key = operation_key();
    let submitted = state
        .operations
        .submit::<K>(input, &principal.name, key.as_deref());
    let id = submitted.await;
    begun(state, id.map_err(|error| public(&error))?).await
}

/// Reports a long action that was begun.
pub(super) async fn begun(state: &RestState, id: OperationId) -> Answer {
    let begun = state
        .operations
        .get(id)
        .await
        .map_err(|error| public(&error))?;
    let mut response = answer::json(&render(&begun))?;
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
        let text = answer::text(&render(&snapshot.ok()?)).ok()?;
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

fn render(operation: &Operation) -> rest::Operation {
    let step = operation.current_step();
    let progress = step.map(|step| match step.progress() {
        Some(progress) => format!("{}: {}", step_label(&step.name), progress.text),
        None => step_label(&step.name).to_owned(),
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
        created_at: timestamp(operation.created_ms),
        ended_at: operation.ended_ms().map(timestamp),
        steps: operation.steps.iter().map(render_step).collect(),
        leftovers: leftovers
            .map(|left| match left.error {
                Some(error) => format!("{}: {error}", step_label(&left.step)),
                None => step_label(&left.step).to_owned(),
            })
            .collect(),
    }
}

fn render_step(step: &strata_workflow::StepRecord) -> rest::OperationStep {
    let phase = match &step.phase {
        StepPhase::Running { .. } => "running",
        StepPhase::Done { .. } => "done",
        StepPhase::Undoing { .. } => "undoing",
        StepPhase::Undone { .. } => "undone",
        StepPhase::Stuck { .. } => "stuck",
    };
    let progress = step.progress();
    rest::OperationStep {
        name: step_label(&step.name).to_owned(),
        phase: phase.to_owned(),
        progress: progress.map_or_else(String::new, |progress| progress.text.clone()),
        fraction: progress.and_then(|progress| progress.fraction),
    }
}

fn render_line(line: LogLine) -> rest::OperationLine {
    rest::OperationLine {
        number: line.number,
        at: timestamp(line.at_ms),
        step: line.step.map(|step| step_label(&step).to_owned()),
        text: line.text,
    }
}
