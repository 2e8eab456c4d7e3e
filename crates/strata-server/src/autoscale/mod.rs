//! Keeps room free: brings machines up when little is left, and empties and
//! takes down hypervisors that nobody needs. What it would do can be looked at
//! first (`plan`); what it goes by is a record.

mod plan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_api::rest::{AutoscalePlan, AutoscaleStep, Autoscaling, Headroom};
use strata_store::{StoreError, Transaction};
use strata_types::instance::InstanceState;
use strata_types::machine::MachinePhase;
use strata_types::{Error, Result};
use strata_workflow::Operations;
use tokio_util::sync::CancellationToken;

pub use plan::{Facts, Place, plan};

use crate::core::{
    Core, Instance, Kept, Lead, NodeCondition, Wanted, Who, decode, encode, encode_over, keys,
    public,
};
use crate::operations::{
    CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, public as operation_failed,
};
use crate::reconcile::busy;

/// How often it looks when nothing wakes it.
const TICK: Duration = Duration::from_secs(10);
/// Changes come in crowds: they are looked at together.
const SETTLE: Duration = Duration::from_secs(1);
/// After room was made or taken, it is not taken again for so long.
const CALM: Duration = Duration::from_secs(300);
/// A machine whose last try failed is left alone for so long.
const SORE_MS: i64 = 10 * 60 * 1000;
const OWNER: &str = "autoscaler";

impl Core {
    /// What the autoscaler goes by.
    pub async fn autoscaling(&self) -> Result<Autoscaling> {
        let found = self.store().get(keys::AUTOSCALING).await.map_err(public)?;
        match found {
            None => Ok(Autoscaling::default()),
            Some(entry) => decode(keys::AUTOSCALING, &entry.value),
        }
    }

    /// Has the autoscaler go by something else.
    pub async fn set_autoscaling(&self, who: &Who, settings: Autoscaling) -> Result<()> {
        who.everywhere()?;
        if settings.most != 0 && settings.least > settings.most {
            let why = format!("is more than most, which is {}", settings.most);
            return Err(Error::invalid("least", why));
        }
        for (field, value) in [("cpu", settings.cpu), ("memory", settings.memory)] {
            if value > 1_000_000_000_000 {
                return Err(Error::invalid(field, "is more than there can be"));
            }
        }
        let before = self.store().get(keys::AUTOSCALING).await.map_err(public)?;
        let text = match before {
            Some(before) => encode_over(&before.value, &settings)?,
            None => encode(&settings)?,
        };
        let put = Transaction::new().put(keys::AUTOSCALING, text);
        match self.store().commit(put).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => Err(Error::unavailable("try again")),
            Err(error) => Err(public(error)),
        }
    }

    /// What the autoscaler would do now.
    pub async fn autoscale_plan(&self) -> Result<AutoscalePlan> {
        Ok(plan(self.autoscaling().await?, &facts(self)))
    }
}

/// What is there.
fn facts(core: &Core) -> Facts {
    let mut facts = Facts::default();
    let machines = core.machines();
    let now = crate::core::now_ms();
    for machine in &machines {
        let size = Headroom {
            cpu: u64::from(machine.threads()) * 1000,
            memory: machine.megabytes(),
            gpu: machine.gpus,
        };
        let sore = machine.failure.as_ref();
        let sore = sore.is_some_and(|failure| now - failure.at_ms < SORE_MS);
        match machine.phase {
            _ if machine.cluster.is_some() => {}
            MachinePhase::Available if sore => {}
            MachinePhase::Available => facts.machines.push((machine.id.to_string(), size)),
            MachinePhase::Up | MachinePhase::Stopping | MachinePhase::Wiping => {}
            // On its way up: counted as room already, so that it is not made twice.
            _ => facts.places.push(Place {
                id: machine.id.to_string(),
                size,
                kept: Headroom::default(),
                may_go: false,
            }),
        }
    }
    for node in core.nodes() {
        let own = machines.iter().find(|it| it.id.as_str() == node.name);
        let coming = own.is_some_and(|it| it.phase != MachinePhase::Up);
        if node.condition != NodeCondition::Ready || coming {
            continue;
        }
        let kept = core.reserved_on(&node.name);
        let kept = Headroom {
            gpu: core.gpus_on(&node.name),
            ..room(kept.cpu, kept.memory)
        };
        if node.draining {
            facts.moving.cpu += kept.cpu;
            facts.moving.memory += kept.memory;
            facts.moving.gpu += kept.gpu;
            continue;
        }
        facts.places.push(Place {
            id: node.name.clone(),
            size: Headroom {
                cpu: node.cpu,
                memory: node.memory / 1_000_000,
                gpu: node.gpus.values().sum(),
            },
            kept,
            may_go: own.is_some(),
        });
    }
    for instance in core.waiting_instances() {
        let needs = instance.spec.resources;
        facts.waiting.push(Headroom {
            gpu: gpus(&instance),
            ..room(needs.cpu, needs.memory)
        });
    }
    facts
}

fn gpus(instance: &Instance) -> u32 {
    let asked = instance.spec.placement.gpus.as_ref();
    asked.map_or(0, |asked| asked.count)
}

fn room(cpu: i32, memory: i32) -> Headroom {
    Headroom {
        cpu: u64::try_from(cpu).unwrap_or(0),
        memory: u64::try_from(memory).unwrap_or(0),
        gpu: 0,
    }
}

impl Core {
    /// How many GPUs are kept for the instances of a node.
    fn gpus_on(&self, node: &str) -> u32 {
        let tables = self.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        let on = on.filter_map(|id| tables.instances.get(id));
        on.map(|one| gpus(one)).sum()
    }

    /// Instances that are to run and have no place.
    fn waiting_instances(&self) -> Vec<Arc<Kept<Instance>>> {
        let tables = self.tables();
        let waits = |one: &Instance| {
            one.node.is_none()
                && one.wanted == Wanted::Running
                // One that fits nowhere is told as failed, and is tried again.
                && matches!(one.state, InstanceState::Scheduling | InstanceState::Failed)
        };
        let all = tables.instances.values();
        all.filter(|one| waits(one)).cloned().collect()
    }
}

/// Starts the autoscaler; it acts while this server leads and it is enabled.
pub fn start(core: Core, operations: Operations, shutdown: CancellationToken) {
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = run(&core, &operations) => {}
        }
    });
}

async fn run(core: &Core, operations: &Operations) {
    // What was up before may have its reasons: it is left alone for a while.
    let mut acted = Some(Instant::now());
    let mut changes = core.watch_all();
    loop {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            _ = changes.recv() => tokio::time::sleep(SETTLE).await,
        }
        changes = changes.resubscribe();
        if !matches!(core.lead(), Lead::Leading(_)) {
            continue;
        }
        match act(core, operations, acted).await {
            Ok(true) => acted = Some(Instant::now()),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the autoscaler could not act"),
        }
    }
}

/// Follows the plan once; takes nothing down so soon after it last acted.
/// Answers whether anything was begun.
pub async fn act(core: &Core, operations: &Operations, acted: Option<Instant>) -> Result<bool> {
    let plan = core.autoscale_plan().await?;
    if !plan.settings.enabled {
        return Ok(false);
    }
    if plan.create.is_empty() && plan.destroy.is_empty() {
        return Ok(false);
    }
    let busy = busy(operations).await;
    let busy = busy.map_err(|error| operation_failed(&error))?;
    let free = |step: &&AutoscaleStep| !busy.contains(&format!("machine/{}", step.machine));
    let mut begun = false;
    for step in plan.create.iter().filter(free) {
        tracing::info!(
            machine = step.machine,
            why = step.why,
            "brought up for room"
        );
        let machine = step.machine.clone();
        let input = CreateInput::hypervisor(machine);
        let asked = operations
            .submit::<CreateHypervisor>(&input, OWNER, None)
            .await;
        asked.map_err(|error| operation_failed(&error))?;
        begun = true;
    }
    let calm = acted.is_none_or(|acted| acted.elapsed() > CALM);
    for step in plan.destroy.iter().filter(|_| calm).filter(free) {
        tracing::info!(machine = step.machine, why = step.why, "taken down");
        let input = DestroyInput::gently(core, &*step.machine);
        let asked = operations
            .submit::<DestroyHypervisor>(&input, OWNER, None)
            .await;
        asked.map_err(|error| operation_failed(&error))?;
        begun = true;
    }
    Ok(begun)
}
