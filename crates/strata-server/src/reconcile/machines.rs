//! Looks at machines: what is on, what of ours is at a provider and nobody
//! knows of. A machine that has our tag and is in no operation's hands is
//! either known to be up, or was left: it is wiped and given back.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_machines::{Provider, Target};
use strata_types::machine::{MachinePhase, MachineSpec, PowerState};
use strata_workflow::{Filter, Operations};
use tokio_util::sync::CancellationToken;

use crate::core::{Core, Lead, Who};
use crate::operations::{DestroyHypervisor, DestroyInput, Hypervisors};

/// How often it looks.
const TICK: Duration = Duration::from_secs(30);
/// How many machines are asked at once.
const AT_ONCE: usize = 16;
const OWNER: &str = "inventory";
/// How long one may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts to look after machines; it acts while this server leads.
pub fn start(hypervisors: Hypervisors, operations: Operations, shutdown: CancellationToken) {
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = run(&hypervisors, &operations) => {}
        }
    });
}

async fn run(own: &Hypervisors, operations: &Operations) {
    let mut lead = own.core.watch_lead();
    loop {
        let leads = matches!(*lead.borrow_and_update(), Lead::Leading(_));
        if leads {
            look(own, operations).await;
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            changed = lead.changed() => if changed.is_err() { return },
        }
    }
}

/// Looks once.
pub async fn look(own: &Hypervisors, operations: &Operations) {
    see_power(own).await;
    for provider in own.providers.all() {
        find_left(own, operations, provider).await;
    }
}

/// Notes which machines are on.
async fn see_power(own: &Hypervisors) {
    let machines = own.core.machines();
    let asked = futures_util::stream::iter(machines).map(|machine| async move {
        let provider = own.providers.get(machine.spec.provider).ok()?;
        let target = own.target(&machine);
        let seen = tokio::time::timeout(PATIENCE, provider.power_state(&target)).await;
        let seen = seen.ok().and_then(Result::ok);
        Some((machine.id.clone(), seen.unwrap_or(PowerState::Unknown)))
    });
    let mut asked = std::pin::pin!(asked.buffer_unordered(AT_ONCE));
    while let Some(seen) = asked.next().await {
        let Some((id, power)) = seen else { continue };
        let noted = own.core.lead_machine(id.as_str(), |now| {
            let mut next = now.clone();
            next.power = power;
            Ok(next)
        });
        if let Err(error) = noted.await {
            tracing::debug!(machine = %id, %error, "its power is not noted");
        }
    }
}

/// Notes what the provider calls a machine of the inventory.
async fn see_names(own: &Hypervisors, machine: &str, handle: &str, hostname: Option<&str>) {
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
        tracing::debug!(machine, %error, "what its provider calls it is not noted");
    }
}

/// Machines with our tag that should not have it.
async fn find_left(own: &Hypervisors, operations: &Operations, provider: &Arc<dyn Provider>) {
    let found = match tokio::time::timeout(PATIENCE, provider.discover()).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            tracing::debug!(provider = %provider.kind(), %error, "machines cannot be listed");
            return;
        }
        Err(_) => return,
    };
    let ours = found.into_iter().filter_map(|one| {
        let tag = one.tag.filter(|tag| tag.run == own.run)?;
        Some((one.handle, one.hostname, tag))
    });
    let ours: Vec<_> = ours.collect();
    for (handle, hostname, tag) in &ours {
        see_names(own, tag.machine.as_str(), handle, hostname.as_deref()).await;
    }
    if ours.is_empty() {
        return;
    }
    // Asked after the provider: whatever began meanwhile is busy here.
    let Ok(busy) = busy(operations).await else {
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
        tracing::warn!(machine = id, %tag, "a machine was left behind, and is given back");
        if known.is_some() {
            // As an operation: nobody else is at it meanwhile.
            let input = DestroyInput::at_once(id);
            let begun = operations.submit::<DestroyHypervisor>(&input, OWNER, None);
            if let Err(error) = begun.await {
                tracing::warn!(machine = id, %error, "it is tried again");
            }
            continue;
        }
        // Of one that is in no inventory nothing can be begun.
        let spec = bare(provider.as_ref(), &handle);
        let wiped = provider.wipe(&Target { tag, spec }).await;
        if let Err(error) = wiped {
            tracing::warn!(handle, %error, "it could not be given back; it is tried again");
        }
    }
}

/// What operations that have not ended have to themselves.
pub(crate) async fn busy(
    operations: &Operations,
) -> Result<HashSet<String>, strata_workflow::WorkflowError> {
    let all = operations.list(&Filter::default()).await?;
    let held = all
        .into_iter()
        .filter(|one| !one.has_ended() || one.holds_claims());
    Ok(held
        .flat_map(|one| one.claims)
        .map(|claim| claim.key)
        .collect())
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
    let who = Who::server("configuration");
    for (id, spec) in inventory {
        if core.machine(id.as_str()).is_ok() {
            continue;
        }
        if let Err(error) = core.add_machine(&who, &id, spec).await {
            tracing::warn!(machine = %id, %error, "a configured machine is left out");
        }
    }
}
