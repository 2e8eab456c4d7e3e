//! Brings a machine up: taken, booted, joined, proven, opened for instances.
//! What fails on the way is switched off, wiped and released.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_machines::Power;
use strata_types::machine::{MachinePhase, PowerState};
use strata_types::{Error, ErrorKind};
use strata_workflow::{Claim, Kind, Outputs, Retry, Step, StepContext, StepError};

use super::{Hypervisors, provider_failed};
use crate::core::{NodeChange, NodeCondition, capabilities_of};
use crate::operations::step_failed;

/// Brings a machine up as a hypervisor.
#[derive(Default)]
pub struct CreateHypervisor;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateInput {
    pub machine: String,
    /// The cluster that it is for; empty for a hypervisor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
}

impl CreateInput {
    pub fn hypervisor(machine: impl Into<String>) -> Self {
        Self {
            machine: machine.into(),
            cluster: String::new(),
        }
    }
}

/// A provider may have to deploy an operating system first.
const BOOT_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// From a running machine to its node.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
const PROVE_TIMEOUT: Duration = Duration::from_secs(60);
/// So that what went wrong is recorded before the step is abandoned.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(30);
/// Changes wake the step that waits; this is for those that are missed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A provider with a short failure is retried for a minute or so.
const RETRY_SHORT: Retry = Retry {
    attempts: 8,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(15),
};

type Ctx = StepContext<CreateHypervisor>;

impl Kind for CreateHypervisor {
    type Input = CreateInput;
    type Context = Hypervisors;
    const NAME: &'static str = "hypervisor-create";

    fn claims(&self, input: &CreateInput) -> Vec<Claim> {
        super::claims(&input.machine)
    }

    fn steps(&self, _: &CreateInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let take = Step::new("take", |ctx: Ctx| async move { take(&ctx).await })
            .undo(|ctx: Ctx| async move { release(&ctx).await });
        let taken = outputs.find::<TakeOutcome>("take")?;
        match taken {
            Some(TakeOutcome::UpAlready) => return Ok(vec![take]),
            Some(TakeOutcome::Lost | TakeOutcome::Unregistered) => {
                return Ok(bring_back(take, taken));
            }
            Some(TakeOutcome::Free) | None => {}
        }
        Ok(vec![
            take,
            Step::new("expect", |ctx: Ctx| async move { expect(&ctx).await })
                .undo(|ctx: Ctx| async move { remove_expectation(&ctx).await }),
            Step::new("boot", |ctx: Ctx| async move { boot(&ctx).await })
                .undo(|ctx: Ctx| async move { wipe(&ctx).await })
                .timeout(BOOT_TIMEOUT)
                .undo_timeout(super::WIPE_TIMEOUT)
                .retry(RETRY_SHORT),
            Step::new("join", |ctx: Ctx| async move { join(&ctx).await })
                .timeout(JOIN_TIMEOUT + TIMEOUT_MARGIN)
                .retry(Retry::NEVER),
            Step::new("prove", |ctx: Ctx| async move { prove(&ctx).await })
                .timeout(PROVE_TIMEOUT + TIMEOUT_MARGIN),
            Step::new("open", |ctx: Ctx| async move { open(&ctx).await }),
        ])
    }
}

/// The steps for a machine that is recorded as up and is not. It keeps its
/// phase: should it not come back, it is as broken as before, nothing of it is
/// wiped, and what is left can be destroyed.
fn bring_back(
    take: Step<CreateHypervisor>,
    taken: Option<TakeOutcome>,
) -> Vec<Step<CreateHypervisor>> {
    let mut steps = vec![take];
    match taken {
        // It has left permanently, and what it has is of no node any more.
        Some(TakeOutcome::Unregistered) => steps.extend([
            Step::new("wipe", |ctx: Ctx| async move { wipe_left(&ctx).await })
                .timeout(super::WIPE_TIMEOUT)
                .retry(RETRY_SHORT),
            Step::new("expect", |ctx: Ctx| async move { expect(&ctx).await })
                .undo(|ctx: Ctx| async move { remove_expectation(&ctx).await }),
        ]),
        _ => steps.push(
            Step::new("off", |ctx: Ctx| async move { switch_off(&ctx).await })
                .timeout(BOOT_TIMEOUT)
                .retry(RETRY_SHORT),
        ),
    }
    steps.extend([
        Step::new("boot", |ctx: Ctx| async move { boot(&ctx).await })
            .timeout(BOOT_TIMEOUT)
            .retry(RETRY_SHORT),
        Step::new("join", |ctx: Ctx| async move { join(&ctx).await })
            .timeout(JOIN_TIMEOUT + TIMEOUT_MARGIN)
            .retry(Retry::NEVER),
        Step::new("prove", |ctx: Ctx| async move { prove(&ctx).await })
            .timeout(PROVE_TIMEOUT + TIMEOUT_MARGIN),
        Step::new("open", |ctx: Ctx| async move { open(&ctx).await }),
    ]);
    steps
}

/// Off, so that it is booted and not left as it is.
async fn switch_off(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    let (provider, target) = own.reach(id).map_err(step_failed)?;
    ctx.progress("node lost: powering the machine off");
    let switched = provider.power(&target, Power::Off).await;
    switched.map_err(provider_failed)
}

/// Nothing of what left is there any more.
async fn wipe_left(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    let (provider, target) = own.reach(id).map_err(step_failed)?;
    ctx.progress("node gone: wiping the machine");
    super::wipe_with_retries(ctx, provider.as_ref(), &target).await
}

/// Into another phase, unless another operation made it a hypervisor: it is
/// brought back then, and stays one.
async fn phase(ctx: &Ctx, phase: MachinePhase) -> Result<(), StepError> {
    let operation = ctx.operation().to_string();
    let now = ctx.context.core.machine(&ctx.input.machine);
    let now = now.map_err(step_failed)?;
    if now.phase == MachinePhase::Up && now.operation != operation {
        return Ok(());
    }
    ctx.context
        .set_phase(&ctx.input.machine, phase, &operation)
        .await
}

/// What there was to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum TakeOutcome {
    Free,
    /// Another operation has brought it up meanwhile: nothing is left to do.
    UpAlready,
    /// It was brought up, and its node is lost or the machine is off.
    Lost,
    /// It was brought up, and its node has left.
    Unregistered,
}

async fn take(ctx: &Ctx) -> Result<TakeOutcome, StepError> {
    let (core, id) = (&ctx.context.core, &ctx.input.machine);
    let operation = ctx.operation().to_string();
    let now = core.machine(id).map_err(step_failed)?;
    super::is_for(&now, &ctx.input.cluster).map_err(step_failed)?;
    if now.phase == MachinePhase::Up && now.operation != operation {
        if ctx.context.serves(&now) || !ctx.input.cluster.is_empty() {
            return Ok(TakeOutcome::UpAlready);
        }
        ctx.context.reach(id).map_err(step_failed)?;
        return Ok(match core.node(id) {
            Ok(_) => TakeOutcome::Lost,
            Err(_) => TakeOutcome::Unregistered,
        });
    }
    // What cannot work is refused here, where there is nothing to undo.
    ctx.context.reach(id).map_err(step_failed)?;
    if now.phase == MachinePhase::Available && core.node(id).is_ok() {
        let why = format!(
            "there is a node {id} already, which is not of this machine; \
             let it leave first: strata node remove"
        );
        return Err(StepError::permanent(why));
    }
    // Another caller may take it for a cluster at this very moment.
    let taken = core.lead_machine(id, |now| {
        super::is_for(now, &ctx.input.cluster)?;
        let mut next = now.clone();
        next.set_phase(MachinePhase::Allocating, &operation)?;
        Ok(next)
    });
    taken.await.map_err(step_failed)?;
    Ok(TakeOutcome::Free)
}

/// Free again, unless something is left that has to go first.
async fn release(ctx: &Ctx) -> Result<(), StepError> {
    let operation = ctx.operation().to_string();
    let given = ctx.context.core.lead_machine(&ctx.input.machine, |now| {
        let mut next = now.clone();
        if now.operation == operation && now.phase != MachinePhase::Up {
            next.set_phase(MachinePhase::Available, &operation)?;
        }
        Ok(next)
    });
    match given.await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(step_failed(error)),
        _ => Ok(()),
    }
}

async fn expect(ctx: &Ctx) -> Result<(), StepError> {
    let (core, id) = (&ctx.context.core, &ctx.input.machine);
    let machine = core.machine(id).map_err(step_failed)?;
    let expected = core.expect_node(id, &machine.spec.labels);
    expected.await.map_err(step_failed)?;
    // From here on no node joins under its name but with a token of this.
    let operation = ctx.operation().to_string();
    let bound = core.expect_join(id, Some(&operation));
    bound.await.map_err(step_failed)
}

async fn remove_expectation(ctx: &Ctx) -> Result<(), StepError> {
    let why = "its machine did not come up";
    ctx.context.remove_node(&ctx.input.machine, why).await
}

async fn boot(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    phase(ctx, MachinePhase::Booting).await?;
    ctx.safe_point()?;
    let work = async {
        let (provider, target) = own.reach(id).map_err(step_failed)?;
        ctx.progress(format!("booting by provider {}", provider.kind()));
        let operation = ctx.operation().to_string();
        // Again: an operation that began with an earlier version has not.
        let bound = own.core.expect_join(id, Some(&operation));
        bound.await.map_err(step_failed)?;
        let boot = own.boot(provider.as_ref(), &target, &operation);
        let boot = boot.map_err(step_failed)?;
        let booted = provider.boot(&target, &boot).await;
        booted.map_err(provider_failed)
    };
    let booted = work.await;
    own.note(id, MachinePhase::Booting, booted).await
}

/// Off and wiped: whatever came of the machine is gone.
async fn wipe(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    let now = own.core.machine(id).map_err(step_failed)?;
    // It never came to booting it.
    if now.phase == MachinePhase::Allocating || now.phase == MachinePhase::Available {
        return Ok(());
    }
    if now.phase != MachinePhase::Wiping {
        phase(ctx, MachinePhase::Stopping).await?;
        phase(ctx, MachinePhase::Wiping).await?;
    }
    let (provider, target) = own.reach(id).map_err(step_failed)?;
    ctx.progress("powering off and releasing the machine");
    // What failed before is what people want to know, not this.
    super::wipe_with_retries(ctx, provider.as_ref(), &target).await
}

async fn join(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    phase(ctx, MachinePhase::Joining).await?;
    let work = async {
        let (provider, target) = own.reach(id).map_err(step_failed)?;
        ctx.progress("waiting for the machine to run");
        tokio::select! {
            up = provider.wait(&target) => drop(up.map_err(provider_failed)?),
            () = ctx.cancelled() => return Err(StepError::Cancelled),
        }
        let until = tokio::time::Instant::now() + JOIN_TIMEOUT;
        let mut changes = own.core.watch_all();
        loop {
            let node = own.core.node(id).map_err(step_failed)?;
            if node.condition == NodeCondition::Ready {
                ctx.progress(format!("node {id} connected"));
                return Ok(());
            }
            ctx.progress(format!("waiting for node {id}"));
            ctx.safe_point()?;
            if tokio::time::Instant::now() > until {
                let minutes = JOIN_TIMEOUT.as_secs() / 60;
                return Err(StepError::permanent(format!(
                    "node {id} has not come within {minutes} minutes; see what the machine \
                     printed: strata machine console {id}"
                )));
            }
            tokio::select! {
                () = ctx.cancelled() => {}
                _ = changes.recv() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    };
    let joined = work.await;
    own.note(id, MachinePhase::Joining, joined).await
}

async fn prove(ctx: &Ctx) -> Result<(), StepError> {
    let (own, id) = (&ctx.context, &ctx.input.machine);
    phase(ctx, MachinePhase::Verifying).await?;
    ctx.progress("running a program in a cell on the node");
    let proven = tokio::time::timeout(PROVE_TIMEOUT, own.prove.prove(id)).await;
    let proven = match proven {
        Ok(proven) => proven.map_err(step_failed),
        Err(_) => Err(StepError::transient(format!(
            "node {id} has not run anything within {} s",
            PROVE_TIMEOUT.as_secs()
        ))),
    };
    own.note(id, MachinePhase::Verifying, proven).await
}

/// Measured, and open for instances.
async fn open(ctx: &Ctx) -> Result<(), StepError> {
    let (core, id) = (&ctx.context.core, &ctx.input.machine);
    let node = core.node(id).map_err(step_failed)?;
    let operation = ctx.operation().to_string();
    let gpus: u32 = node.gpus.values().sum();
    let capabilities = capabilities_of(&node);
    let known = |error: Error| step_failed(error);
    core.lead_machine(id, |now| {
        let mut next = now.clone();
        next.set_phase(MachinePhase::Up, &operation)?;
        next.failure = None;
        next.cpu = u32::try_from(node.cpu.div_ceil(1000)).ok();
        next.ram = Some(node.memory / 1_000_000);
        next.gpus = gpus;
        next.capabilities.clone_from(&capabilities);
        next.power = PowerState::On;
        Ok(next)
    })
    .await
    .map_err(known)?;
    core.expect_join(id, None).await.map_err(step_failed)?;
    // What is a cluster's takes no instances.
    if !ctx.input.cluster.is_empty() {
        return Ok(());
    }
    let opened = NodeChange {
        draining: Some(false),
        ..NodeChange::default()
    };
    core.change_node_for_operation(id, &opened)
        .await
        .map_err(step_failed)
}
