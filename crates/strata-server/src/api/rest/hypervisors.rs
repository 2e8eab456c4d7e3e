//! `/hypervisor/`: machines that are brought up and taken down, and
//! `/autoscaling`, which does so by itself.

use axum::extract::State;
use serde_json::{Map, Value, json};
use strata_api::rest::{self, Autoscaling, HypervisorDrain};
use strata_identity::policy::{ADMIN, OPERATE, READ};
use strata_types::machine::MachinePhase;
use strata_types::{Error, ErrorKind, Role};
use strata_workflow::Kind as _;

use super::extract::{Auth, Json, Parameters, ResourceId};
use super::operations::begin;
use super::patch::patched;
use super::rejection::Answer;
use super::route::{self, Noun};
use super::{RestState, answer, json};
use crate::core::{Effect, expect_effect, keys};
use crate::operations::{
    self, CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, Drain,
};

pub(super) fn routes() -> Noun {
    Noun::new(
        "hypervisor",
        "Machines of the inventory as nodes: boot, drain, wipe; the autoscaler.",
    )
    .id("ID of the machine.")
    .routes([
        route::get("/hypervisor", READ, super::machines::list)
            .named("listHypervisors", "List hypervisors")
            .about("All machines of the inventory: each is a hypervisor, or can become one.")
            .returns_watchable_list::<rest::Machine>(),
        route::get("/hypervisor/{id}", READ, super::machines::show)
            .named("getHypervisor", "Get a hypervisor")
            .about("One machine of the inventory, seen as a hypervisor.")
            .returns_versioned::<rest::Machine>(),
        route::post("/hypervisor/{id}/create", ADMIN, create)
            .named("createHypervisor", "Create a hypervisor")
            .about("Starts an operation that boots the machine and joins it as a node.")
            .starts(CreateHypervisor::NAME),
        route::post("/hypervisor/{id}/destroy", ADMIN, destroy)
            .named("destroyHypervisor", "Destroy a hypervisor")
            .about(
                "Starts an operation that stops and wipes the machine, without evicting its \
                    instances first.",
            )
            .starts(DestroyHypervisor::NAME),
        route::post("/hypervisor/{id}/drain", OPERATE, drain)
            .named("drainHypervisor", "Drain a hypervisor")
            .about(
                "Starts an operation that evicts its instances to other nodes and, if \
                    requested, destroys it afterwards.",
            )
            .body::<HypervisorDrain>()
            .starts(Drain::NAME),
        route::get("/autoscaling", READ, autoscaling)
            .named("getAutoscaling", "Get the autoscaler settings")
            .about(
                "The limits and thresholds by which the autoscaler brings machines up and \
                    takes them down.",
            )
            .returns::<Autoscaling>(),
        route::patch("/autoscaling", ADMIN, set_autoscaling)
            .named("updateAutoscaling", "Update the autoscaler settings")
            .about(
                "Fields that are left out keep their value; `null` resets a field to its \
                    default.",
            )
            .body_as("AutoscalingPatch")
            .example(json!({ "enabled": true, "cpu": 4000 }))
            .returns::<Autoscaling>(),
        route::get("/autoscaling/plan", READ, autoscale_plan)
            .named("planAutoscaling", "Preview the autoscaler's next actions")
            .about("What the autoscaler would do now, and why, without doing it.")
            .returns::<rest::AutoscalePlan>(),
    ])
}

/// Brings it up.
async fn create(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(machine): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    // One that is up is done at once.
    let record = state.core.machine(&machine)?;
    operations::is_for(&record, "")?;
    state.backends.hypervisors.check_provider(&record.spec)?;
    begin::<CreateHypervisor>(&state, &principal, &CreateInput::hypervisor(machine)).await
}

/// Takes it down, without moving anything first.
async fn destroy(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(machine): ResourceId,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    // One that is down is done at once, too.
    operations::is_for(&*state.core.machine(&machine)?, "")?;
    begin::<DestroyHypervisor>(&state, &principal, &DestroyInput::at_once(machine)).await
}

/// Drains it, and takes it down then when that is requested.
async fn drain(
    State(state): State<RestState>,
    Auth(principal): Auth,
    ResourceId(machine): ResourceId,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let asked: HypervisorDrain = json::parse(&body)?;
    let found = state.core.machine(&machine)?;
    operations::is_for(&found, "")?;
    if found.phase != MachinePhase::Up {
        let error = Error::wrong_state(format!("{machine} is {}: it has no node", found.phase));
        return Err(error.into());
    }
    if !asked.destroy {
        let input = operations::drain_input(&state.core, &machine, false)?;
        return begin::<Drain>(&state, &principal, &input).await;
    }
    if principal.role != Role::Admin {
        let why = "only an admin may take a hypervisor down";
        return Err(Error::new(ErrorKind::PermissionDenied, why).into());
    }
    let input = DestroyInput::gently(&state.core, machine);
    begin::<DestroyHypervisor>(&state, &principal, &input).await
}

/// What the autoscaler goes by.
async fn autoscaling(
    State(state): State<RestState>,
    Auth(_): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    answer::json(&state.core.autoscaling().await?)
}

/// Has the autoscaler go by something else.
async fn set_autoscaling(
    State(state): State<RestState>,
    Auth(principal): Auth,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.deny_unknown(&[])?;
    let patch: Map<String, Value> = json::parse(&body)?;
    let now = state.core.autoscaling().await?;
    let next: Autoscaling = patched(&now, patch)?;
    expect_effect(Effect::updates(keys::AUTOSCALING.into()));
    state.core.set_autoscaling(&principal, next).await?;
    answer::json(&next)
}

/// What the autoscaler would do now.
async fn autoscale_plan(
    State(state): State<RestState>,
    Auth(_): Auth,
    parameters: Parameters,
) -> Answer {
    parameters.deny_unknown(&[])?;
    answer::json(&state.core.autoscale_plan().await?)
}
