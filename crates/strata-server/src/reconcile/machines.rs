//! Observes machines: which are on, and which at a provider have our tag
//! without a record of their use. A machine that has our tag and is in no
//! operation is either known to be up, or was left: it is wiped and released.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_machines::{Provider, Target};
use strata_tasks::TaskGroup;
use strata_types::machine::{MachinePhase, MachineSpec, PowerState};
use strata_workflow::Operations;

use super::machine_sizes;
use crate::core::{Core, Lead, Principal};
use crate::operations::{DestroyHypervisor, DestroyInput, Hypervisors, claimed};

/// How often it runs.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(30);
/// How many machines are queried at once.
const MAX_CONCURRENT: usize = 16;
const OWNER: &str = "inventory";
/// How long one may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts the reconciler of machines; it acts while this server leads.
pub fn start(hypervisors: Hypervisors, operations: Operations, tasks: &TaskGroup) {
    tasks.restart("machine-inventory", move || {
        let (hypervisors, operations) = (hypervisors.clone(), operations.clone());
        async move { run(&hypervisors, &operations).await }
    });
}

async fn run(own: &Hypervisors, operations: &Operations) {
    let mut lead = own.core.watch_lead();
    loop {
        let leads = matches!(*lead.borrow_and_update(), Lead::Leading(_));
        if leads {
            reconcile(own, operations).await;
        }
        tokio::select! {
            () = tokio::time::sleep(RECONCILE_INTERVAL) => {}
            changed = lead.changed() => if changed.is_err() { return },
        }
    }
}

pub async fn reconcile(own: &Hypervisors, operations: &Operations) {
    observe_power(own).await;
    for provider in own.providers.all() {
        find_stale(own, operations, provider).await;
    }
}

/// Notes which machines are on.
async fn observe_power(own: &Hypervisors) {
    let machines = own.core.machines();
    let asked = futures_util::stream::iter(machines).map(|machine| async move {
        let provider = own.providers.get(machine.spec.provider).ok()?;
        let target = own.target(&machine);
        let observation =
            tokio::time::timeout(REQUEST_TIMEOUT, provider.power_state(&target)).await;
        let observation = observation.ok().and_then(Result::ok);
        Some((
            machine.id.clone(),
            observation.unwrap_or(PowerState::Unknown),
        ))
    });
    let mut asked = std::pin::pin!(asked.buffer_unordered(MAX_CONCURRENT));
    while let Some(observation) = asked.next().await {
        let Some((id, power)) = observation else {
            continue;
        };
        let noted = own.core.lead_machine(id.as_str(), |now| {
            let mut next = now.clone();
            // Its provider need not know a machine that is free: it is as it was
            // left.
            if power != PowerState::Unknown || next.phase != MachinePhase::Available {
                next.power = power;
            }
            Ok(next)
        });
        if let Err(error) = noted.await {
            tracing::debug!(machine = %id, %error, "power state of the machine not saved");
        }
    }
}

/// Notes what the provider calls a machine of the inventory.
async fn observe_names(own: &Hypervisors, machine: &str, handle: &str, hostname: Option<&str>) {
    let known = own.core.machine(machine);
    let is_new = known.is_ok_and(|now| {
        now.provider_id.as_deref() != Some(handle) || now.hostname.as_deref() != hostname
    });
    if !is_new {
        return;
    }
    let noted = own.core.lead_machine(machine, |now| {
        let mut next = now.clone();
        next.provider_id = Some(handle.to_owned());
        next.hostname = hostname.map(str::to_owned);
        Ok(next)
    });
    if let Err(error) = noted.await {
        tracing::debug!(machine, %error, "name of the machine at its provider not saved");
    }
}

/// Machines with our tag that should not have it.
async fn find_stale(own: &Hypervisors, operations: &Operations, provider: &Arc<dyn Provider>) {
    let found = match tokio::time::timeout(REQUEST_TIMEOUT, provider.discover()).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            tracing::debug!(provider = %provider.kind(), %error, "machines cannot be listed");
            return;
        }
        Err(_) => return,
    };
    machine_sizes::observe(&own.core, provider.kind(), &found).await;
    let ours = found.into_iter().filter_map(|one| {
        let tag = one.tag.filter(|tag| tag.run == own.run)?;
        Some((one.handle, one.hostname, tag))
    });
    let ours: Vec<_> = ours.collect();
    for (handle, hostname, tag) in &ours {
        observe_names(own, tag.machine.as_str(), handle, hostname.as_deref()).await;
    }
    if ours.is_empty() {
        return;
    }
    // Read after the provider was queried: whatever began meanwhile is busy
    // here.
    let Ok(busy) = claimed(operations).await else {
        return;
    };
    for (handle, _, tag) in ours {
        let id = tag.machine.as_str();
        let known = own.core.machine(id).ok();
        let in_use = known
            .as_ref()
            .is_some_and(|machine| machine.phase != MachinePhase::Available);
        if in_use || busy.contains(&format!("machine/{id}")) {
            continue;
        }
        tracing::warn!(machine = id, %tag, "stale machine found, releasing it");
        if known.is_some() {
            // As an operation: nothing else is at it meanwhile.
            let input = DestroyInput::at_once(id);
            let begun = operations.submit::<DestroyHypervisor>(&input, OWNER, None);
            if let Err(error) = begun.await {
                tracing::warn!(machine = id, %error, "stale machine not wiped, retrying");
            }
            continue;
        }
        // Of one that is in no inventory nothing can be begun.
        let spec = bare(provider.as_ref(), &handle);
        if !own.core.leads_now() {
            return;
        }
        let wiped = provider.wipe(&Target { tag, spec }).await;
        if let Err(error) = wiped {
            tracing::warn!(handle, %error, "stale machine not released, retrying");
        }
    }
}

/// A machine of which only its provider's name is known.
fn bare(provider: &dyn Provider, handle: &str) -> MachineSpec {
    MachineSpec {
        provider: provider.kind(),
        handle: handle.to_owned(),
        address: String::new(),
        credentials: String::new(),
        cpu: None,
        ram: None,
        disk: None,
        labels: std::collections::BTreeMap::new(),
    }
}

/// Adds the machines that the configuration names. One that is there already
/// stays as it is.
pub async fn add_configured(core: &Core, inventory: Vec<(strata_types::Label, MachineSpec)>) {
    let principal = Principal::server("configuration");
    for (id, spec) in inventory {
        if core.machine(id.as_str()).is_ok() {
            continue;
        }
        if let Err(error) = core.add_machine(&principal, &id, spec).await {
            tracing::warn!(machine = %id, %error, "configured machine skipped");
        }
    }
}
