//! Takes a hypervisor down: switched off, its node forgotten and its instances
//! placed elsewhere at once, wiped, given back. Asked to be gentle, it is
//! emptied first.
//!
//! From the moment it is off there is no way back, and none is tried: what
//! fails then stays as it is, with the reason, and the same call goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_machines::Power;
use strata_types::machine::{MachinePhase, PowerState};
use strata_workflow::{At, Claim, Kind, Outputs, Retry, Step, StepError};

use super::{Hypervisors, provider_failed};
use crate::core::{Core, NodeChange};
use crate::operations::step_failed;

/// Takes a hypervisor down.
#[derive(Default)]
pub struct DestroyHypervisor;

/// Which, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DestroyInput {
    /// The machine.
    pub machine: String,
    /// It is emptied first.
    #[serde(default)]
    pub drain: bool,
    /// It was closed before: cancelled, it stays so.
    #[serde(default)]
    pub was_closed: bool,
    /// The cluster that it was for; empty for a hypervisor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
}

impl DestroyInput {
    /// At once, as a lost node.
    pub fn at_once(machine: impl Into<String>) -> Self {
        Self {
            machine: machine.into(),
            drain: false,
            was_closed: false,
            cluster: String::new(),
        }
    }

    /// Out of a cluster.
    pub fn of_cluster(machine: impl Into<String>, cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            ..Self::at_once(machine)
        }
    }

    /// Emptied first.
    pub fn gently(core: &Core, machine: impl Into<String>) -> Self {
        let machine = machine.into();
        let closed = core.node(&machine).is_ok_and(|node| node.draining);
        Self {
            machine,
            drain: true,
            was_closed: closed,
            cluster: String::new(),
        }
    }
}

/// As long as anybody waits for room.
const EMPTYING: Duration = Duration::from_secs(7 * 24 * 3600);
const SWITCHING: Duration = Duration::from_secs(5 * 60);
/// A provider that is away is waited for: for about an hour.
const PATIENT: Retry = Retry {
    attempts: 64,
    first_pause: Duration::from_millis(200),
    longest_pause: Duration::from_secs(60),
};

type Here = At<DestroyHypervisor>;

impl Kind for DestroyHypervisor {
    type Input = DestroyInput;
    type Context = Hypervisors;
    const NAME: &'static str = "hypervisor-destroy";

    fn claims(&self, input: &DestroyInput) -> Vec<Claim> {
        super::claims(&input.machine)
    }

    fn steps(&self, input: &DestroyInput, _: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let mut steps = Vec::new();
        if input.drain {
            steps.push(
                Step::new("close", |at: Here| async move { close(&at).await })
                    .undo(|at: Here| async move { open_again(&at).await }),
            );
            steps.push(
                Step::new("empty", |at: Here| async move { empty(&at).await }).timeout(EMPTYING),
            );
        }
        steps.extend([
            Step::new("off", |at: Here| async move { off(&at).await })
                .timeout(SWITCHING)
                .retry(PATIENT),
            Step::new("forget", |at: Here| async move { forget(&at).await }).retry(PATIENT),
            Step::new("wipe", |at: Here| async move { wipe(&at).await })
                .timeout(super::WIPING)
                .retry(PATIENT),
            Step::new("free", |at: Here| async move { free(&at).await }).retry(PATIENT),
        ]);
        Ok(steps)
    }
}

/// Takes nothing new from here on.
async fn close(at: &Here) -> Result<(), StepError> {
    match at.context.core.node(&at.input.machine) {
        Ok(_) => set_closed(at, true).await,
        Err(_) => Ok(()),
    }
}

/// Cancelled, it is as it was; once it is being stopped there is nothing to open.
async fn open_again(at: &Here) -> Result<(), StepError> {
    let (core, id) = (&at.context.core, &at.input.machine);
    let machine = core.machine(id).map_err(step_failed)?;
    if at.input.was_closed || machine.phase != MachinePhase::Up || core.node(id).is_err() {
        return Ok(());
    }
    set_closed(at, false).await
}

async fn set_closed(at: &Here, closed: bool) -> Result<(), StepError> {
    let change = NodeChange {
        draining: Some(closed),
        ..NodeChange::default()
    };
    let core = &at.context.core;
    let changed = core.change_node_for_operation(&at.input.machine, &change);
    changed.await.map_err(step_failed)
}

async fn empty(at: &Here) -> Result<(), StepError> {
    let (core, id) = (&at.context.core, &at.input.machine);
    crate::operations::drain::until_empty(at, core, id).await
}

async fn off(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    at.safe_point()?;
    let operation = at.operation().to_string();
    let turned = own.core.lead_machine(id, |now| {
        // One that its cluster has given up is nobody's.
        if now.cluster.is_some() {
            super::is_for(now, &at.input.cluster)?;
        }
        let mut next = now.clone();
        match now.phase {
            // It was given up half-way before, or is free already.
            MachinePhase::Wiping | MachinePhase::Available => {
                operation.clone_into(&mut next.operation);
            }
            _ => next.turn(MachinePhase::Stopping, &operation)?,
        }
        Ok(next)
    });
    turned.await.map_err(step_failed)?;
    if is_nobodys(at)? {
        return Ok(());
    }
    let work = async {
        let (provider, target) = own.reach(id).map_err(step_failed)?;
        at.progress("switching it off");
        let off = provider.power(&target, Power::Off).await;
        match off {
            // What is not there cannot be on.
            Err(strata_machines::ProviderError::NoSuchMachine(_)) => Ok(()),
            other => other.map_err(provider_failed),
        }
    };
    let switched = work.await;
    own.note(id, MachinePhase::Stopping, switched).await
}

/// One that is down and that no driver of this server reaches: there is nothing
/// to do.
fn is_nobodys(at: &Here) -> Result<bool, StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    let machine = own.core.machine(id).map_err(step_failed)?;
    Ok(machine.phase == MachinePhase::Available && own.reach(id).is_err())
}

/// Its instances are placed elsewhere now, not when the lease ends.
async fn forget(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    let on = own.core.instances_on(id);
    at.progress(format!("{on} instances are placed elsewhere"));
    own.forget_node(id, "its machine was destroyed").await
}

async fn wipe(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    let operation = at.operation().to_string();
    let now = own.core.machine(id).map_err(step_failed)?;
    if now.phase == MachinePhase::Stopping {
        own.turn(id, MachinePhase::Wiping, &operation).await?;
    }
    if is_nobodys(at)? {
        return Ok(());
    }
    let work = async {
        let (provider, target) = own.reach(id).map_err(step_failed)?;
        at.progress("erasing what was on it and giving it back");
        super::wipe_patiently(at, provider.as_ref(), &target).await
    };
    let wiped = work.await;
    own.note(id, MachinePhase::Wiping, wiped).await
}

async fn free(at: &Here) -> Result<(), StepError> {
    let (core, id) = (&at.context.core, &at.input.machine);
    let operation = at.operation().to_string();
    let freed = core.lead_machine(id, |now| {
        let mut next = now.clone();
        next.turn(MachinePhase::Available, &operation)?;
        (next.failure, next.power) = (None, PowerState::Off);
        Ok(next)
    });
    freed.await.map(drop).map_err(step_failed)
}
