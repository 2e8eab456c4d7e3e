//! `/machine/`: the inventory. Machines are added and removed by people; what
//! they become is for operations.

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse as _;
use futures_util::StreamExt as _;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};
use strata_api::rest::{self, NewMachine, PowerAction, PowerRequest};
use strata_audit::SessionKind;
use strata_identity::policy::{ADMIN, OPERATE, READ};
use strata_machines::ProviderError;
use strata_types::machine::{MachinePhase, MachineSpec};
use strata_types::{Error, Label, Result};
use strata_workflow::Kind as _;

use super::answer::{self, accepted};
use super::etag::Conditions;
use super::extract::{Auth, Json, Parameters, Recorder, ResourceId};
use super::operations::begin;
use super::rejection::Answer;
use super::route::{self, Noun};
use super::view::timestamp;
use super::watch::{self, Selection};
use super::{RestState, json, patch};
use crate::api::session::RecordedText;
use crate::core::{Core, Effect, Machine, Page, Versioned, expect_effect, keys};
use crate::operations::{SwitchInput, SwitchMachine};

pub(super) fn routes() -> Noun {
    Noun::new("machine", "The inventory of machines that can be booted.")
        .id("ID of the machine.")
        .routes([
            route::get("/machine", READ, list)
                .named("listMachines", "List machines")
                .about("All machines of the inventory, ordered by ID.")
                .returns_watchable_list::<rest::Machine>(),
            route::put("/machine", ADMIN, add)
                .named("addMachine", "Add a machine to the inventory")
                .about("The machine is registered and stays powered off until it is used.")
                .body_as("NewMachine")
                .example(
                    json!({ "id": "m1", "provider": "local", "cpu": 2, "ram": 2048,
                "labels": { "zone": "a" } }),
                )
                .creates::<rest::Machine>(),
            route::get("/machine/{id}", READ, show)
                .named("getMachine", "Get a machine")
                .about("Provider, hardware and phase of one machine.")
                .returns_versioned::<rest::Machine>(),
            route::patch("/machine/{id}", ADMIN, update)
                .named("updateMachine", "Update a machine")
                .about("While the machine is in use, only its labels can be changed.")
                .body_as("MachinePatch")
                .example(json!({ "labels": { "zone": "b" } }))
                .updates::<rest::Machine>(),
            route::delete("/machine/{id}", ADMIN, remove)
                .named("removeMachine", "Remove a machine from the inventory")
                .about("Only machines that are down can be removed.")
                .deletes_versioned(),
            route::post("/machine/{id}/power", ADMIN, power)
                .named("switchMachine", "Switch the power of a machine")
                .about("Starts an operation that powers the machine on or off, or resets it.")
                .body::<PowerRequest>()
                .starts(SwitchMachine::NAME),
            route::get("/machine/{id}/console", OPERATE, console)
                .named("readMachineConsole", "Read the console of a machine")
                .about("Streams the output of the serial console until the client disconnects.")
                .returns_text()
                .requires_running(),
        ])
}

pub(super) async fn list(
    State(state): State<RestState>,
    Auth(_): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&["limit", "offset", "watch"])?;
    let (limit, offset) = parameters.pagination()?;
    let core = state.core.clone();
    if parameters.flag("watch")? {
        return Ok(watch::follow(&state, watched(&core)));
    }
    let page = Page::of(core.machines().into_iter(), offset, limit);
    answer::list(page.total, page.items.iter().map(|one| render(&core, one)))
}

async fn add(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let mut fields: Map<String, Value> = json::parse(&body)?;
    let id = json::take_text(&mut fields, "id")?;
    let id = id.ok_or_else(|| Error::invalid("id", "is missing"))?;
    let new = NewMachine {
        spec: json::from_object(fields)?,
        id,
    };
    let id = Label::from_field("id", &new.id)?;
    state.backends.hypervisors.check_provider(&new.spec)?;
    let (made, is_new) = state.core.add_machine(&principal, &id, new.spec).await?;
    let told = render(&state.core, &made);
    answer::made(is_new, &format!("/machine/{id}"), made.revision, &told)
}

pub(super) async fn show(
    State(state): State<RestState>,
    Auth(_): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&["watch"])?;
    let core = state.core.clone();
    let found = core.machine(&id)?;
    if parameters.flag("watch")? {
        let selection = watched(&core).only(found.id.clone());
        return Ok(watch::follow(&state, selection));
    }
    if conditions.known(found.revision) {
        return Ok(answer::unchanged(found.revision));
    }
    answer::one(StatusCode::OK, found.revision, &render(&core, &found))
}

async fn update(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let core = &state.core;
    let found = core.machine(&id)?;
    let precondition = conditions.to_change(found.revision)?;
    let spec = changed(&found.spec, json::parse(&body)?)?;
    expect_effect(Effect::updates(keys::machine(&found.id)));
    let changed = core
        .update_machine(&principal, &id, &spec, precondition)
        .await;
    let changed = changed.map_err(|error| conditions.reject(error))?;
    answer::one(StatusCode::OK, changed.revision, &render(core, &changed))
}

/// The specification of a machine after a patch.
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

async fn remove(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(id): ResourceId,
    parameters: Parameters,
    conditions: Conditions,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let found = state.core.machine(&id)?;
    let precondition = conditions.to_change(found.revision)?;
    expect_effect(Effect::deletes(keys::machine(&found.id)));
    let gone = state.core.remove_machine(&principal, &id, precondition);
    gone.await.map_err(|error| conditions.reject(error))?;
    Ok(accepted())
}

/// Switches it by hand.
async fn power(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(machine): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
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
    begin::<SwitchMachine>(&state, &principal, &input).await
}

/// What it prints on its console, as plain text, until the client disconnects.
async fn console(
    State(state): State<RestState>,
    Auth(_): Auth,
    Recorder(recorder): Recorder,
    ResourceId(id): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let (provider, target) = state.backends.hypervisors.reach(&id)?;
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

/// A machine as the API returns it.
pub(super) fn render(core: &Core, machine: &Versioned<Machine>) -> rest::Machine {
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
        created_at: timestamp(machine.created_at_ms),
        changed_at: timestamp(machine.changed_at_ms),
    }
}

/// Machines that are watched.
fn watched(core: &Core) -> Selection<Machine> {
    let shown = core.clone();
    Selection::of(
        core,
        |_| true,
        move |one| answer::text(&render(&shown, one)),
    )
}
