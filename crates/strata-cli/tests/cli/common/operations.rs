//! Long actions of the fake: a drain that goes its way when it is followed.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use strata_api::rest::{Operation, OperationLine, OperationStatus, OperationStep};
use strata_types::Error;

use super::objects::{CREATED, Objects};
use super::rest::{Query, answer, events, find, is, problem, put, told};

pub const ACTIVE: &str = "0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e";
pub const FAILED: &str = "0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6f";
/// What a drain that is asked for gets.
pub const BEGUN: &str = "0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d70";

fn step(name: &str, phase: &str, progress: &str, fraction: Option<f64>) -> OperationStep {
    OperationStep {
        name: name.into(),
        phase: phase.into(),
        progress: progress.into(),
        fraction,
    }
}

fn drain(id: &str, node: &str) -> Operation {
    Operation {
        id: id.into(),
        kind: "node-drain".into(),
        status: OperationStatus::Active,
        message: "empty: 1 on it still: web\u{1b}[2J".into(),
        owner: "me".into(),
        about: vec![format!("node/{node}")],
        created_at: CREATED.into(),
        steps: vec![
            step("close", "done", "", None),
            step("empty", "running", "1 on it still: web", Some(0.5)),
        ],
        ..Default::default()
    }
}

fn ended(operation: &Operation, fails: bool) -> Operation {
    let mut operation = operation.clone();
    operation.ended_at = Some("2026-01-31T12:00:00Z".into());
    operation.message = String::new();
    operation.status = OperationStatus::Completed;
    operation.steps[1].phase = "done".into();
    if fails {
        operation.status = OperationStatus::Failed;
        operation.message = "cancelled by ann".into();
        operation.steps[0].phase = "stuck".into();
        operation.leftovers = vec!["close: the store does not exist".into()];
    }
    operation
}

pub fn operations() -> Vec<Operation> {
    vec![
        ended(&drain(FAILED, "rack1-8"), true),
        drain(ACTIVE, "rack1-7"),
    ]
}

pub fn log() -> Vec<OperationLine> {
    let line = |number, step: Option<&str>, text: &str| OperationLine {
        number,
        at: format!("2026-01-31T12:00:00.00{number}Z"),
        step: step.map(str::to_owned),
        text: text.into(),
    };
    vec![
        line(1, None, "begun"),
        line(2, Some("close"), "done\u{1b}[2J"),
    ]
}

/// `POST /node/{node}/drain`.
pub fn begin(objects: &mut Objects, node: &str, query: &Query<'_>) -> Response {
    if let Err(error) = find(&objects.nodes, node, query) {
        return problem(&error);
    }
    scheduled(objects, drain(BEGUN, node))
}

/// Any other long action.
pub fn begun(objects: &mut Objects, kind: &str, about: &str) -> Response {
    let operation = Operation {
        kind: kind.into(),
        about: vec![about.into()],
        message: "work: half of it".into(),
        steps: vec![
            step("prepare", "done", "", None),
            step("work", "running", "half of it", Some(0.5)),
        ],
        ..drain(BEGUN, "")
    };
    scheduled(objects, operation)
}

/// One that works at several machines at once.
pub fn several(objects: &mut Objects, kind: &str, about: &str) -> Response {
    let lines = "m1: installs v1.34.4\nm2: waits for m1";
    let operation = Operation {
        kind: kind.into(),
        about: vec![about.into()],
        message: format!("join: {lines}"),
        steps: vec![
            step("boot", "done", "m1: up\nm2: up", None),
            step("join", "running", lines, None),
        ],
        ..drain(BEGUN, "")
    };
    scheduled(objects, operation)
}

fn scheduled(objects: &mut Objects, operation: Operation) -> Response {
    let begun = Operation {
        status: OperationStatus::Scheduled,
        message: String::new(),
        steps: Vec::new(),
        ..operation.clone()
    };
    objects.operations.retain(|one| one.id != BEGUN);
    objects.operations.push(operation);
    (StatusCode::ACCEPTED, told(&begun)).into_response()
}

pub fn serve(objects: &mut Objects, method: &Method, name: &str, query: &Query<'_>) -> Response {
    if let Some(id) = name.strip_suffix("/log") {
        return match find(&objects.operations, id, query) {
            Ok(_) => told(&log()),
            Err(error) => problem(&error),
        };
    }
    let found = match find(&objects.operations, name, query) {
        Ok(found) => objects.operations[found].clone(),
        Err(_) if name.is_empty() => {
            return answer(&mut objects.operations, method, name, query, &[]);
        }
        Err(error) => return problem(&error),
    };
    if *method == Method::DELETE && found.ended_at.is_some() {
        return problem(&Error::wrong_state("it has ended"));
    }
    if *method == Method::GET && is(query, "watch").is_some() {
        return follow(objects, &found);
    }
    match *method {
        Method::DELETE => StatusCode::ACCEPTED.into_response(),
        _ => told(&found),
    }
}

/// The first stream of several ends too early.
fn follow(objects: &mut Objects, found: &Operation) -> Response {
    let cut = objects.watches > 1;
    objects.watches = objects.watches.saturating_sub(1);
    let mut steps: Vec<Value> = vec![serde_json::to_value(found).unwrap()];
    if !cut {
        let end = ended(found, objects.operations_fail);
        steps.push(serde_json::to_value(end).unwrap());
    }
    events(steps.into_iter().map(put).collect())
}
