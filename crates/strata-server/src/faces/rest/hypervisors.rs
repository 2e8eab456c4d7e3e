//! `/hypervisor/`: machines that are brought up and taken down, and
//! `/autoscaling`, which does so by itself.

use axum::extract::State;
use serde_json::{Map, Value};
use strata_api::rest::{Autoscaling, HypervisorDrain};
use strata_types::machine::MachinePhase;
use strata_types::{Error, ErrorKind, Role};

use super::extract::{Asker, Json, Parameters, Thing};
use super::operations::begin;
use super::patch::patched;
use super::refusal::Answer;
use super::{RestState, answer, json};
use crate::operations::{
    self, CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, Drain,
};

/// Brings it up.
pub(super) async fn create(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(machine): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    // One that is up is done at once.
    let record = state.core.machine(&machine)?;
    operations::is_for(&record, "")?;
    state.estate.hypervisors.check_provider(&record.spec)?;
    begin::<CreateHypervisor>(&state, &who, &CreateInput::hypervisor(machine)).await
}

/// Takes it down, without moving anything first.
pub(super) async fn destroy(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(machine): Thing,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    // One that is down is done at once, too.
    operations::is_for(&*state.core.machine(&machine)?, "")?;
    begin::<DestroyHypervisor>(&state, &who, &DestroyInput::at_once(machine)).await
}

/// Empties it, and takes it down then when that is asked for.
pub(super) async fn drain(
    State(state): State<RestState>,
    Asker(who): Asker,
    Thing(machine): Thing,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let asked: HypervisorDrain = json::parse(&body)?;
    let found = state.core.machine(&machine)?;
    operations::is_for(&found, "")?;
    if found.phase != MachinePhase::Up {
        let error = Error::wrong_state(format!("{machine} is {}: it has no node", found.phase));
        return Err(error.into());
    }
    if !asked.destroy {
        let input = operations::drain_input(&state.core, &machine, false)?;
        return begin::<Drain>(&state, &who, &input).await;
    }
    if who.role != Role::Admin {
        let why = "only an admin may take a hypervisor down";
        return Err(Error::new(ErrorKind::PermissionDenied, why).into());
    }
    let input = DestroyInput::gently(&state.core, machine);
    begin::<DestroyHypervisor>(&state, &who, &input).await
}

/// What the autoscaler goes by.
pub(super) async fn autoscaling(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    answer::json(&state.core.autoscaling().await?)
}

/// Has the autoscaler go by something else.
pub(super) async fn set_autoscaling(
    State(state): State<RestState>,
    Asker(who): Asker,
    parameters: Parameters,
    Json(body): Json,
) -> Answer {
    parameters.only(&[])?;
    let patch: Map<String, Value> = json::parse(&body)?;
    let now = state.core.autoscaling().await?;
    let next: Autoscaling = patched(&now, patch)?;
    state.core.set_autoscaling(&who, next).await?;
    answer::json(&next)
}

/// What the autoscaler would do now.
pub(super) async fn autoscale_plan(
    State(state): State<RestState>,
    Asker(_): Asker,
    parameters: Parameters,
) -> Answer {
    parameters.only(&[])?;
    answer::json(&state.core.autoscale_plan().await?)
}
