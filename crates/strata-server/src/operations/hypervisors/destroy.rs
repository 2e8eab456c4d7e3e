//! Takes a hypervisor down: switched off, its node removed and its instances
//! placed elsewhere at once, wiped, released. On request it is drained first.
//!
//! From the moment it is off there is no rollback, and none is tried: what
//! fails then stays as it is, with the reason, and the same call goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_machines::Power;
use strata_types::machine::{MachinePhase, PowerState};
use strata_workflow::{Claim, Kind, Outputs, Retry, Step, StepContext, StepError};

use super::{Hypervisors, provider_failed};
use crate::core::{Core, NodeChange};
use crate::operations::step_failed;

/// Takes a hypervisor down.
#[derive(Default)]
pub struct DestroyHypervisor;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DestroyInput {
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

/// As long as an instance waits for room.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
const POWER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// A provider that is away is waited for: for about an hour.
const RETRY_SHORT: Retry = Retry {
    attempts: 64,
    first_pause: Duration::from_millis(200),
    longest_pause: Duration::from_secs(60),
};

type Ctx = StepContext<DestroyHypervisor>;

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
                Step::new("close", |ctx: Ctx| async move { close(&ctx).await })
                    .undo(|ctx: Ctx| async move { reopen(&ctx).await }),
            );
            steps.push(
                Step::new("empty", |ctx: Ctx| async move { empty(&ctx).await })
                    .timeout(DRAIN_TIMEOUT),
            );
        }
        steps.extend([
            Step::new("off", |ctx: Ctx| async move { off(&ctx).await })
                .timeout(POWER_TIMEOUT)
                .retry(RETRY_SHORT),
            Step::new(
                "forget",
                |ctx: Ctx| async move { remove_record(&ctx).await },
            )
            .retry(RETRY_SHORT),
            Step::new("wipe", |ctx: Ctx| async move { wipe(&ctx).await })
                .timeout(super::WIPE_TIMEOUT)
                .retry(RETRY_SHORT),
            Step::new("free", |ctx: Ctx| async move { free(&ctx).await }).retry(RETRY_SHORT),
        ]);
        Ok(steps)
    }
}

/// Takes nothing new from here on.
async fn close(ctx: &Ctx) -> Result<(), StepError> {
    match ctx.context.core.node(&ctx.input.machine) {
        Ok(_) => set_closed(ctx, true).await,
        Err(_) => Ok(()),
    }
}

/// Cancelled, it is as it was; once it is being stopped there is nothing to open.
async fn reopen(ctx: &Ctx) -> Result<(), StepError> {
    let (core, id) = (&ctx.context.core, &ctx.input.machine);
    let machine = core.machine(id).map_err(step_failed)?;
    if ctx.input.was_closed || machine.phase != MachinePhase::Up || core.node(id).is_err() {
        return Ok(());
    }
    set_closed(ctx, false).await
}

async fn set_closed(ctx: &Ctx, closed: bool) -> Result<(), StepError> {
    let change = NodeChange {
        draining: Some(closed),
        ..NodeChange::default()
    };
    let core = &ctx.context.core;
    let changed = core.change_node_for_operation(&ctx.input.machine, &change);
    changed.await.map_err(step_failed)
}

async fn empty(ctx: &Ctx) -> Result<(), StepError> {
    let (core, id) = (&ctx.context.core, &ctx.input.machine);
    crate::operations::drain::wait_until_empty(ctx, core, id).await
}

async fn off(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    ctx.safe_point()?;
    let operation = ctx.operation().to_string();
    let turned = own.core.lead_machine(id, |now| {
        // A machine that its cluster has abandoned belongs to none.
        if now.cluster.is_some() {
            super::is_for(now, &ctx.input.cluster)?;
        }
        let mut next = now.clone();
        match now.phase {
            // It was abandoned half-way before, or is free already.
            MachinePhase::Wiping | MachinePhase::Available => {
                operation.clone_into(&mut next.operation);
            }
            _ => next.set_phase(MachinePhase::Stopping, &operation)?,
        }
        Ok(next)
    });
    turned.await.map_err(step_failed)?;
    if is_unowned(ctx)? {
        return Ok(());
    }
    let work = async {
        let (provider, target) = own.reach(id).map_err(step_failed)?;
        ctx.progress("powering the machine off");
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
fn is_unowned(ctx: &Ctx) -> Result<bool, StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    let machine = own.core.machine(id).map_err(step_failed)?;
    Ok(machine.phase == MachinePhase::Available && own.reach(id).is_err())
}

/// Its instances are placed elsewhere now, not when the lease ends.
async fn remove_record(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    let on = own.core.instances_on(id);
    ctx.progress(format!("{on} instances rescheduled"));
    own.remove_node(id, "its machine was destroyed").await
}

async fn wipe(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    let operation = ctx.operation().to_string();
    let now = own.core.machine(id).map_err(step_failed)?;
    if now.phase == MachinePhase::Stopping {
        own.set_phase(id, MachinePhase::Wiping, &operation).await?;
    }
    if is_unowned(ctx)? {
        return Ok(());
    }
    let work = async {
        let (provider, target) = own.reach(id).map_err(step_failed)?;
        ctx.progress("wiping and releasing the machine");
        super::wipe_with_retries(ctx, provider.as_ref(), &target).await
    };
    let wiped = work.await;
    own.note(id, MachinePhase::Wiping, wiped).await
}

async fn free(ctx: &Ctx) -> Result<(), StepError> {
    let (core, id) = (&ctx.context.core, &ctx.input.machine);
    let operation = ctx.operation().to_string();
    let freed = core.lead_machine(id, |now| {
        let mut next = now.clone();
        next.set_phase(MachinePhase::Available, &operation)?;
        (next.failure, next.power) = (None, PowerState::Off);
        Ok(next)
    });
    freed.await.map(drop).map_err(step_failed)
}
