//! `/machine/`: the inventory. Machines are added and removed by people; what
//! they become is for operations.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse as _;
use futures_util::StreamExt as _;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use strata_api::rest::{self, NewMachine, PowerAction, PowerRequest};
use strata_audit::SessionKind;
use strata_machines::ProviderError;
use strata_store::Revision;
use strata_types::machine::{MachinePhase, MachineSpec};
use strata_types::{Error, Label, Result};

use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Asker, Json, Parameters, Recorder, Thing};
use super::operations::begin;
use super::refusal::Answer;
use super::view::moment;
use super::watch::{self, Watched, following};
use super::{RestState, json, patch};
use crate::core::{Changed, Core, Kept, Machine, Page, Turn};
use crate::faces::session::RecordedText;
use crate::operations::{SwitchInput, SwitchMachine};

pub(super) async fn list(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&["limit", "offset", "watch"])?;
    let (limit, offset) = parameters.piece()?;
    let core = state.core.clone();
    if parameters.flag("watch")? {
        return Ok(watch::follow(&state, Those { core, only: None }));
    }
    let page = Page::of(core.machines().into_iter(), offset, limit);
    answer::list(page.total, page.items.iter().map(|one| tell(&core, one)))
}

pub(super) async fn add(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let mut fields: Map<String, Value> = json::parse(&body)?;
    let id = json::take_text(&mut fields, "id")?;
    let id = id.ok_or_else(|| Error::invalid("id", "is missing"))?;
    let new = NewMachine {
        spec: json::from_object(fields)?,
        id,
    };
    let id = Label::from_field("id", &new.id)?;
    state.estate.hypervisors.check_provider(&new.spec)?;
    let (made, is_new) = state.core.add_machine(&who, &id, new.spec).await?;
    let told = tell(&state.core, &made);
    answer::made(is_new, &format!("/machine/{id}"), made.revision, &told)
}

pub(super) async fn show(
    State(state): State<RestState>,
    Asker(_): Asker,
    Thing(id): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&["watch"])?;
    let core = state.core.clone();
    let found = core.machine(&id)?;
    if parameters.flag("watch")? {
        let only = Some(id);
        return Ok(watch::follow(&state, Those { core, only }));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    answer::one(StatusCode::OK, found.revision, &tell(&core, &found))
}

pub(super) async fn update(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(id): Thing,
    parameters: Parameters,
    conditions: Conditions,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let core = &state.core;
    let found = core.machine(&id)?;
    let precondition = conditions.to_change(found.revision)?;
    let spec = changed(&found.spec, json::parse(&body)?)?;
    let changed = core.update_machine(&who, &id, &spec, precondition).await;
    let changed = changed.map_err(|error| conditions.judge(error))?;
    answer::one(StatusCode::OK, changed.revision, &tell(core, &changed))
}

/// What a patch makes of what is said of a machine.
fn changed(now: &MachineSpec, fields: Map<String, Value>) -> Result<MachineSpec> {
    const CHANGEABLE: [&str; 7] = [
        "handle",
        "address",
        "credentials",
        "cpu",
        "ram",
        "disk",
        "labels",
    ];
    for field in fields.keys() {
        if !CHANGEABLE.contains(&field.as_str()) {
            let field: String = field.chars().take(80).collect();
            let why = format!("cannot be changed; there are {}", CHANGEABLE.join(", "));
            return Err(Error::invalid(field, why));
        }
    }
    patch::patched(now, fields)
}

pub(super) async fn remove(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(id): Thing,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.only(&[])?;
    let found = state.core.machine(&id)?;
    let precondition = conditions.to_change(found.revision)?;
    let gone = state.core.remove_machine(&who, &id, precondition);
    gone.await.map_err(|error| conditions.judge(error))?;
    Ok(accepted())
}

/// Switches it by hand.
pub(super) async fn power(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(machine): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: PowerRequest = json::parse(&body)?;
    let found = state.core.machine(&machine)?;
    let on = asked.power == PowerAction::On;
    if found.phase != MachinePhase::Available && !on && !asked.force {
        let error = Error::wrong_state(format!("machine {machine} is {}", found.phase));
        let hint = "use force, or take it down in order: strata hypervisor destroy";
        return Err(error.with_hint(hint).into());
    }
    let power = asked.power;
    let input = SwitchInput { machine, power };
    begin::<SwitchMachine>(&state, &who, &input).await
}

/// What it prints on its console, as plain text, until whoever reads leaves.
pub(super) async fn console(
    State(state): State<RestState>,
    Asker(_): Asker,
    Recorder(recorder): Recorder,
    Thing(id): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    let (provider, target) = state.estate.hypervisors.reach(&id)?;
    let opened = provider.console(&target).await;
    let text = opened.map_err(|error| match error {
        ProviderError::Unavailable(why) => Error::unavailable(why),
        ProviderError::NoSuchMachine(why) => Error::wrong_state(why)
            .with_hint("a machine that is not up has no console: strata hypervisor create"),
        other => Error::wrong_state(other.to_string()),
    })?;
    let session = recorder.start(SessionKind::Console, format!("machine/{id}"), None, &[]);
    let text = RecordedText::new(text, session);
    let end = state.shutdown.clone().cancelled_owned();
    let body = Body::from_stream(text.take_until(Box::pin(end)));
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// A machine as it is told.
pub(super) fn tell(core: &Core, machine: &Kept<Machine>) -> rest::Machine {
    let (state, message) = core.hypervisor_state(machine);
    let id = machine.id.as_str();
    let node = core.node(id).ok();
    let spec = &machine.spec;
    rest::Machine {
        id: id.to_owned(),
        provider: spec.provider,
        handle: match spec.handle.as_str() {
            "" => id.to_owned(),
            handle => handle.to_owned(),
        },
        address: spec.address.clone(),
        credentials: spec.credentials.clone(),
        cpu: machine.threads(),
        ram: machine.megabytes(),
        capabilities: core.machine_capabilities(machine),
        labels: spec.labels.clone(),
        phase: machine.phase,
        state: state.as_str().to_owned(),
        message,
        failure: machine.failure.clone(),
        power: machine.power,
        node_address: node.map_or_else(String::new, |node| node.address.clone()),
        instances: core.instances_on(id),
        operation: machine.operation.clone(),
        created_at: moment(machine.created_at_ms),
        changed_at: moment(machine.changed_at_ms),
    }
}

/// Machines that are followed.
struct Those {
    core: Core,
    only: Option<String>,
}

impl Watched for Those {
    type Record = Machine;

    fn turn(changed: Changed) -> Option<Turn<Machine>> {
        match changed {
            Changed::Machine(turn) => Some(turn),
            _ => None,
        }
    }

    fn accepts(&self, one: &Machine) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only == one.id.as_str())
    }

    fn page(&self, after: Option<&Machine>, limit: usize) -> Vec<Arc<Kept<Machine>>> {
        let tables = self.core.tables();
        let accepted = |one: &&Arc<Kept<Machine>>| self.accepts(one);
        let rest = following(&tables.machines, after.map(|one| &one.id));
        rest.filter(accepted).take(limit).cloned().collect()
    }

    fn revision(&self, one: &Machine) -> Option<Revision> {
        let tables = self.core.tables();
        tables.machines.get(&one.id).map(|kept| kept.revision)
    }

    fn tell(&self, kept: &Kept<Machine>) -> Vec<u8> {
        answer::text(&tell(&self.core, kept)).unwrap_or_default()
    }

    fn is_one(&self) -> bool {
        self.only.is_some()
    }
}
