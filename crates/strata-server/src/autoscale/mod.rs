//! Keeps room free: brings machines up when little is left, and empties and
//! takes down hypervisors that are not needed. What it would do can be looked
//! at first (`plan`); what it goes by is a record.

mod plan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_api::rest::{AutoscalePlan, AutoscaleStep, Autoscaling, Headroom};
use strata_store::{StoreError, Transaction};
use strata_tasks::TaskGroup;
use strata_types::instance::InstanceState;
use strata_types::machine::MachinePhase;
use strata_types::{Error, Result};
use strata_workflow::Operations;

pub use plan::{AutoscaleInputs, MachineRoom, plan};

use crate::core::{
    Core, DesiredState, Instance, Lead, NodeCondition, Principal, Versioned, decode, encode,
    encode_over, keys, public,
};
use crate::operations::{
    CreateHypervisor, CreateInput, DestroyHypervisor, DestroyInput, claimed,
    public as operation_failed,
};

/// How often it runs when nothing wakes it.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(10);
/// Changes come in crowds: they are handled together.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// After room was made or taken, it is not taken again for so long.
const SCALE_DOWN_COOLDOWN: Duration = Duration::from_secs(300);
/// A machine whose last try failed is left alone for so long.
const FAILURE_COOLDOWN_MS: i64 = 10 * 60 * 1000;
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
    pub async fn set_autoscaling(
        &self,
        principal: &Principal,
        settings: Autoscaling,
    ) -> Result<()> {
        principal.require_all_projects()?;
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
        match self.commit(put).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => Err(Error::unavailable("try again")),
            Err(error) => Err(public(error)),
        }
    }

    /// What the autoscaler would do now.
    pub async fn autoscale_plan(&self) -> Result<AutoscalePlan> {
        Ok(plan(self.autoscaling().await?, &inputs(self)))
    }
}

fn inputs(core: &Core) -> AutoscaleInputs {
    let mut inputs = AutoscaleInputs::default();
    let machines = core.machines();
    let now = crate::core::now_ms();
    for machine in &machines {
        let size = Headroom {
            cpu: u64::from(machine.threads()) * 1000,
            memory: machine.megabytes(),
            gpu: machine.gpus,
        };
        let cooldown = machine.failure.as_ref();
        let cooldown = cooldown.is_some_and(|failure| now - failure.at_ms < FAILURE_COOLDOWN_MS);
        match machine.phase {
            _ if machine.cluster.is_some() => {}
            MachinePhase::Available if cooldown => {}
            MachinePhase::Available => inputs.machines.push((machine.id.to_string(), size)),
            MachinePhase::Up | MachinePhase::Stopping | MachinePhase::Wiping => {}
            // On its way up: counted as room already, so that it is not made twice.
            _ => inputs.places.push(MachineRoom {
                id: machine.id.to_string(),
                size,
                stored: Headroom::default(),
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
        let stored = core.reserved_on(&node.name);
        let stored = Headroom {
            gpu: core.gpus_on(&node.name),
            ..room(stored.cpu, stored.memory)
        };
        if node.draining {
            inputs.moving.cpu += stored.cpu;
            inputs.moving.memory += stored.memory;
            inputs.moving.gpu += stored.gpu;
            continue;
        }
        inputs.places.push(MachineRoom {
            id: node.name.clone(),
            size: Headroom {
                cpu: node.cpu,
                memory: node.memory / 1_000_000,
                gpu: node.gpus.values().sum(),
            },
            stored,
            may_go: own.is_some(),
        });
    }
    for instance in core.waiting_instances() {
        let needs = instance.spec.resources;
        inputs.waiting.push(Headroom {
            gpu: gpus(&instance),
            ..room(needs.cpu, needs.memory)
        });
    }
    inputs
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
    fn waiting_instances(&self) -> Vec<Arc<Versioned<Instance>>> {
        let tables = self.tables();
        let waits = |one: &Instance| {
            one.node.is_none()
                && one.desired_state == DesiredState::Running
                // One that fits nowhere is recorded as failed, and is tried
                // again.
                && matches!(one.state, InstanceState::Scheduling | InstanceState::Failed)
        };
        let all = tables.instances.values();
        all.filter(|one| waits(one)).cloned().collect()
    }
}

/// Starts the autoscaler; it acts while this server leads and it is enabled.
pub fn start(core: Core, operations: Operations, tasks: &TaskGroup) {
    tasks.restart("autoscaler", move || {
        let (core, operations) = (core.clone(), operations.clone());
        async move { run(&core, &operations).await }
    });
}

async fn run(core: &Core, operations: &Operations) {
    // What was up before may have its reasons: it is left alone for a while.
    let mut acted = Some(Instant::now());
    let mut changes = core.watch_all();
    loop {
        tokio::select! {
            () = tokio::time::sleep(RECONCILE_INTERVAL) => {}
            _ = changes.recv() => tokio::time::sleep(DEBOUNCE).await,
        }
        changes = changes.resubscribe();
        if !matches!(core.lead(), Lead::Leading(_)) {
            continue;
        }
        match act(core, operations, acted).await {
            Ok(true) => acted = Some(Instant::now()),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "autoscaling round failed; retrying"),
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
    let busy = claimed(operations).await;
    let busy = busy.map_err(|error| operation_failed(&error))?;
    let free = |step: &&AutoscaleStep| !busy.contains(&format!("machine/{}", step.machine));
    let mut begun = false;
    for step in plan.create.iter().filter(free) {
        tracing::info!(
            machine = step.machine,
            why = step.why,
            "machine started by the autoscaler"
        );
        let machine = step.machine.clone();
        let input = CreateInput::hypervisor(machine);
        let asked = operations
            .submit::<CreateHypervisor>(&input, OWNER, None)
            .await;
        asked.map_err(|error| operation_failed(&error))?;
        begun = true;
    }
    let calm = acted.is_none_or(|acted| acted.elapsed() > SCALE_DOWN_COOLDOWN);
    for step in plan.destroy.iter().filter(|_| calm).filter(free) {
        tracing::info!(
            machine = step.machine,
            why = step.why,
            "machine stopped by the autoscaler"
        );
        let input = DestroyInput::gently(core, &*step.machine);
        let asked = operations
            .submit::<DestroyHypervisor>(&input, OWNER, None)
            .await;
        asked.map_err(|error| operation_failed(&error))?;
        begun = true;
    }
    Ok(begun)
}
