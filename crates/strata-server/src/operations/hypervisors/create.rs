//! Brings a machine up: taken, booted, joined, proven, opened for instances.
//! What fails on the way is switched off, wiped and given back.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_machines::Power;
use strata_types::machine::{MachinePhase, PowerState};
use strata_types::{Error, ErrorKind};
use strata_workflow::{At, Claim, Kind, Outputs, Retry, Step, StepError};

use super::{Hypervisors, provider_failed};
use crate::core::{NodeChange, NodeCondition, capabilities_of};
use crate::operations::step_failed;

/// Brings a machine up as a hypervisor.
#[derive(Default)]
pub struct CreateHypervisor;

/// Which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateInput {
    /// The machine.
    pub machine: String,
    /// The cluster that it is for; empty for a hypervisor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
}

impl CreateInput {
    /// For instances.
    pub fn hypervisor(machine: impl Into<String>) -> Self {
        Self {
            machine: machine.into(),
            cluster: String::new(),
        }
    }
}

/// A provider may have to deploy an operating system first.
const BOOTING: Duration = Duration::from_secs(20 * 60);
/// From a running machine to its node.
const JOINING: Duration = Duration::from_secs(10 * 60);
const PROVING: Duration = Duration::from_secs(60);
/// So that what went wrong is written down before the step is given up.
const SPARE: Duration = Duration::from_secs(30);
/// Changes wake whoever waits; this is for those that are missed.
const LOOK: Duration = Duration::from_secs(1);
/// A provider that hiccups is asked for a minute or so.
const PATIENT: Retry = Retry {
    attempts: 8,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(15),
};

type Here = At<CreateHypervisor>;

impl Kind for CreateHypervisor {
    type Input = CreateInput;
    type Context = Hypervisors;
    const NAME: &'static str = "hypervisor-create";

    fn claims(&self, input: &CreateInput) -> Vec<Claim> {
        super::claims(&input.machine)
    }

    fn steps(&self, _: &CreateInput, outputs: &Outputs) -> Result<Vec<Step<Self>>, StepError> {
        let take = Step::new("take", |at: Here| async move { take(&at).await })
            .undo(|at: Here| async move { give_back(&at).await });
        let taken = outputs.find::<Taken>("take")?;
        match taken {
            Some(Taken::UpAlready) => return Ok(vec![take]),
            Some(Taken::Lost | Taken::Unregistered) => return Ok(bring_back(take, taken)),
            Some(Taken::Free) | None => {}
        }
        Ok(vec![
            take,
            Step::new("expect", |at: Here| async move { expect(&at).await })
                .undo(|at: Here| async move { forget(&at).await }),
            Step::new("boot", |at: Here| async move { boot(&at).await })
                .undo(|at: Here| async move { wipe(&at).await })
                .timeout(BOOTING)
                .undo_timeout(super::WIPING)
                .retry(PATIENT),
            Step::new("join", |at: Here| async move { join(&at).await })
                .timeout(JOINING + SPARE)
                .retry(Retry::NEVER),
            Step::new("prove", |at: Here| async move { prove(&at).await }).timeout(PROVING + SPARE),
            Step::new("open", |at: Here| async move { open(&at).await }),
        ])
    }
}

/// The steps for a machine that is said to be up and is not. It stays where it
/// is in its life: should it not come back, it is as broken as before, nothing
/// of it is wiped, and what is left can be destroyed.
fn bring_back(take: Step<CreateHypervisor>, taken: Option<Taken>) -> Vec<Step<CreateHypervisor>> {
    let mut steps = vec![take];
    match taken {
        // It has left for good, and what it has is of no node any more.
        Some(Taken::Unregistered) => steps.extend([
            Step::new("wipe", |at: Here| async move { wipe_left(&at).await })
                .timeout(super::WIPING)
                .retry(PATIENT),
            Step::new("expect", |at: Here| async move { expect(&at).await })
                .undo(|at: Here| async move { forget(&at).await }),
        ]),
        _ => steps.push(
            Step::new("off", |at: Here| async move { switch_off(&at).await })
                .timeout(BOOTING)
                .retry(PATIENT),
        ),
    }
    steps.extend([
        Step::new("boot", |at: Here| async move { boot(&at).await })
            .timeout(BOOTING)
            .retry(PATIENT),
        Step::new("join", |at: Here| async move { join(&at).await })
            .timeout(JOINING + SPARE)
            .retry(Retry::NEVER),
        Step::new("prove", |at: Here| async move { prove(&at).await }).timeout(PROVING + SPARE),
        Step::new("open", |at: Here| async move { open(&at).await }),
    ]);
    steps
}

/// Off, so that it is booted and not left as it is.
async fn switch_off(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    let (provider, target) = own.reach(id).map_err(step_failed)?;
    at.progress("its node is lost: switching it off");
    let switched = provider.power(&target, Power::Off).await;
    switched.map_err(provider_failed)
}

/// Nothing of what left is there any more.
async fn wipe_left(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    let (provider, target) = own.reach(id).map_err(step_failed)?;
    at.progress("its node has left: wiping it");
    super::wipe_patiently(at, provider.as_ref(), &target).await
}

/// Into another phase, unless another operation made it a hypervisor: it is
/// brought back then, and stays one.
async fn phase(at: &Here, phase: MachinePhase) -> Result<(), StepError> {
    let operation = at.operation().to_string();
    let now = at.context.core.machine(&at.input.machine);
    let now = now.map_err(step_failed)?;
    if now.phase == MachinePhase::Up && now.operation != operation {
        return Ok(());
    }
    at.context.turn(&at.input.machine, phase, &operation).await
}

/// What there was to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Taken {
    /// It was free.
    Free,
    /// Another operation has brought it up meanwhile: nothing is left to do.
    UpAlready,
    /// It was brought up, and its node is lost or the machine is off.
    Lost,
    /// It was brought up, and its node has left.
    Unregistered,
}

async fn take(at: &Here) -> Result<Taken, StepError> {
    let (core, id) = (&at.context.core, &at.input.machine);
    let operation = at.operation().to_string();
    let now = core.machine(id).map_err(step_failed)?;
    super::is_for(&now, &at.input.cluster).map_err(step_failed)?;
    if now.phase == MachinePhase::Up && now.operation != operation {
        if at.context.serves(&now) || !at.input.cluster.is_empty() {
            return Ok(Taken::UpAlready);
        }
        at.context.reach(id).map_err(step_failed)?;
        return Ok(match core.node(id) {
            Ok(_) => Taken::Lost,
            Err(_) => Taken::Unregistered,
        });
    }
    // What cannot work is told here, where there is nothing to undo.
    at.context.reach(id).map_err(step_failed)?;
    if now.phase == MachinePhase::Available && core.node(id).is_ok() {
        let why = format!(
            "there is a node {id} already, which is not of this machine; \
             let it leave first: strata node remove"
        );
        return Err(StepError::permanent(why));
    }
    // Somebody may take it for a cluster at this very moment.
    let taken = core.lead_machine(id, |now| {
        super::is_for(now, &at.input.cluster)?;
        let mut next = now.clone();
        next.turn(MachinePhase::Taking, &operation)?;
        Ok(next)
    });
    taken.await.map_err(step_failed)?;
    Ok(Taken::Free)
}

/// Free again, unless something is left that has to go first.
async fn give_back(at: &Here) -> Result<(), StepError> {
    let operation = at.operation().to_string();
    let given = at.context.core.lead_machine(&at.input.machine, |now| {
        let mut next = now.clone();
        if now.operation == operation && now.phase != MachinePhase::Up {
            next.turn(MachinePhase::Available, &operation)?;
        }
        Ok(next)
    });
    match given.await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(step_failed(error)),
        _ => Ok(()),
    }
}

async fn expect(at: &Here) -> Result<(), StepError> {
    let (core, id) = (&at.context.core, &at.input.machine);
    let machine = core.machine(id).map_err(step_failed)?;
    let expected = core.expect_node(id, &machine.spec.labels);
    expected.await.map_err(step_failed)?;
    // From here on nobody comes under its name but with a token of this.
    let operation = at.operation().to_string();
    let bound = core.expect_join(id, Some(&operation));
    bound.await.map_err(step_failed)
}

async fn forget(at: &Here) -> Result<(), StepError> {
    let why = "its machine did not come up";
    at.context.forget_node(&at.input.machine, why).await
}

async fn boot(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    phase(at, MachinePhase::Booting).await?;
    at.safe_point()?;
    let work = async {
        let (provider, target) = own.reach(id).map_err(step_failed)?;
        at.progress(format!("{} boots it", provider.kind()));
        let operation = at.operation().to_string();
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
async fn wipe(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    let now = own.core.machine(id).map_err(step_failed)?;
    // It never came to booting it.
    if now.phase == MachinePhase::Taking || now.phase == MachinePhase::Available {
        return Ok(());
    }
    if now.phase != MachinePhase::Wiping {
        phase(at, MachinePhase::Stopping).await?;
        phase(at, MachinePhase::Wiping).await?;
    }
    let (provider, target) = own.reach(id).map_err(step_failed)?;
    at.progress("switching it off and giving it back");
    // What failed before is what people want to know, not this.
    super::wipe_patiently(at, provider.as_ref(), &target).await
}

async fn join(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    phase(at, MachinePhase::Joining).await?;
    let work = async {
        let (provider, target) = own.reach(id).map_err(step_failed)?;
        at.progress("waiting for it to run");
        tokio::select! {
            up = provider.wait(&target) => drop(up.map_err(provider_failed)?),
            () = at.cancelled() => return Err(StepError::Cancelled),
        }
        let until = tokio::time::Instant::now() + JOINING;
        let mut changes = own.core.watch_all();
        loop {
            let node = own.core.node(id).map_err(step_failed)?;
            if node.condition == NodeCondition::Ready {
                at.progress(format!("node {id} has come"));
                return Ok(());
            }
            at.progress(format!("waiting for node {id}"));
            at.safe_point()?;
            if tokio::time::Instant::now() > until {
                let minutes = JOINING.as_secs() / 60;
                return Err(StepError::permanent(format!(
                    "node {id} has not come within {minutes} minutes; see what the machine \
                     printed: strata machine console {id}"
                )));
            }
            tokio::select! {
                () = at.cancelled() => {}
                _ = changes.recv() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    };
    let joined = work.await;
    own.note(id, MachinePhase::Joining, joined).await
}

async fn prove(at: &Here) -> Result<(), StepError> {
    let (own, id) = (&at.context, &at.input.machine);
    phase(at, MachinePhase::Proving).await?;
    at.progress("running something in a cell on it");
    let proven = tokio::time::timeout(PROVING, own.prove.prove(id)).await;
    let proven = match proven {
        Ok(proven) => proven.map_err(step_failed),
        Err(_) => Err(StepError::transient(format!(
            "node {id} has not run anything within {} s",
            PROVING.as_secs()
        ))),
    };
    own.note(id, MachinePhase::Proving, proven).await
}

/// Measured, and open for instances.
async fn open(at: &Here) -> Result<(), StepError> {
    let (core, id) = (&at.context.core, &at.input.machine);
    let node = core.node(id).map_err(step_failed)?;
    let operation = at.operation().to_string();
    let gpus: u32 = node.gpus.values().sum();
    let capabilities = capabilities_of(&node);
    let known = |error: Error| step_failed(error);
    core.lead_machine(id, |now| {
        let mut next = now.clone();
        next.turn(MachinePhase::Up, &operation)?;
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
    if !at.input.cluster.is_empty() {
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
