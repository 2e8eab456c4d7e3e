//! Machines of the inventory: added, changed, removed, and led through their
//! phases by operations. Which phase may follow which is a table
//! (`strata_types::machine`); nothing here gets around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strata_store::{StoreError, Transaction};
use strata_types::cluster::ClusterName;
use strata_types::machine::{
    Capability, MachineFailure, MachineId, MachinePhase, MachineSpec, PowerState, ProviderKind,
};
use strata_types::{Error, Result};

use super::commit::As;
use super::follow::public;
use super::record::{Node, NodeCondition, encode};
use super::tables::Kept;
use super::{Core, Precondition, Who, keys, now_ms};

/// A machine of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its id, and the name of its node.
    pub id: MachineId,
    /// What was said of it.
    pub spec: MachineSpec,
    /// Where it stands.
    pub phase: MachinePhase,
    /// The last phase that failed, until one works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<MachineFailure>,
    /// The operation that last worked on it.
    #[serde(default)]
    pub operation: String,
    /// The cluster that it is a machine of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// What its provider calls it, as was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Its host name, as its provider last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Threads, as was measured.
    #[serde(default)]
    pub cpu: Option<u32>,
    /// MB, as was measured.
    #[serde(default)]
    pub ram: Option<u64>,
    /// What it was found to be good for.
    #[serde(default)]
    pub capabilities: Vec<Capability>,
    /// GPUs, as were found.
    #[serde(default)]
    pub gpus: u32,
    /// Whether it is on, as was last seen.
    #[serde(default)]
    pub power: PowerState,
    /// When it was added, in Unix milliseconds.
    pub created_at_ms: i64,
    /// When its phase last changed.
    pub changed_at_ms: i64,
}

/// What can be done with a machine, as the published document says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HypervisorState {
    /// In transit, broken or unreachable.
    Unknown,
    /// Down and healthy.
    AvailableToCreate,
    /// Up.
    AvailableToDestroy,
}

impl HypervisorState {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::AvailableToCreate => "AVAILABLE_TO_CREATE",
            Self::AvailableToDestroy => "AVAILABLE_TO_DESTROY",
        }
    }
}

impl Machine {
    fn new(id: MachineId, spec: MachineSpec) -> Self {
        let now = now_ms();
        Self {
            id,
            spec,
            phase: MachinePhase::Available,
            failure: None,
            operation: String::new(),
            cluster: None,
            provider_id: None,
            hostname: None,
            cpu: None,
            ram: None,
            capabilities: Vec::new(),
            gpus: 0,
            power: PowerState::Unknown,
            created_at_ms: now,
            changed_at_ms: now,
        }
    }

    /// Into another phase, for an operation. Going on in the same is fine.
    pub(crate) fn turn(&mut self, next: MachinePhase, operation: &str) -> Result<()> {
        if self.phase != next {
            if !self.phase.may_become(next) {
                return Err(Error::wrong_state(format!(
                    "machine {} is {}, and cannot become {next}",
                    self.id, self.phase
                )));
            }
            self.phase = next;
            self.changed_at_ms = now_ms();
        }
        operation.clone_into(&mut self.operation);
        Ok(())
    }

    /// Threads: measured, or as was said, or what a virtual machine has of
    /// which nothing was said.
    pub fn threads(&self) -> u32 {
        let usual = (self.spec.provider == ProviderKind::Qemu).then_some(DEFAULT_VM_CPUS);
        self.cpu.or(self.spec.cpu).or(usual).unwrap_or(0)
    }

    /// MB: measured, or as was said, or what a virtual machine has of which
    /// nothing was said.
    pub fn megabytes(&self) -> u64 {
        let usual = (self.spec.provider == ProviderKind::Qemu).then_some(DEFAULT_VM_RAM);
        self.ram.or(self.spec.ram).or(usual).unwrap_or(0)
    }
}

/// What a node tells that its machine is good for.
pub(crate) fn capabilities_of(node: &Node) -> Vec<Capability> {
    let has_gpu = node.gpus.values().any(|count| *count > 0);
    let storage = (!node.pool.is_empty()).then_some(Capability::Storage);
    let gpu = has_gpu.then_some(Capability::Gpu);
    storage.into_iter().chain(gpu).collect()
}

/// What a virtual machine has of which nothing was said: as its driver makes it.
const DEFAULT_VM_CPUS: u32 = 1;
const DEFAULT_VM_RAM: u64 = 1024;

/// The most labels that a machine has.
const MOST_LABELS: usize = 100;

fn check(spec: &MachineSpec) -> Result<()> {
    let plain = |text: &str, most: usize| text.len() <= most && !text.contains(char::is_control);
    for (field, text, most) in [
        ("handle", &spec.handle, 256),
        ("address", &spec.address, 512),
        ("credentials", &spec.credentials, 63),
    ] {
        if !plain(text, most) {
            let why = format!("must be at most {most} characters, without control characters");
            return Err(Error::invalid(field, why));
        }
    }
    let bounds = [
        ("cpu", spec.cpu.map(u64::from), 4096),
        ("ram", spec.ram, 64_000_000),
        ("disk", spec.disk, 1_000_000),
    ];
    for (field, value, most) in bounds {
        if value.is_some_and(|value| value == 0 || value > most) {
            return Err(Error::invalid(field, format!("must be 1 to {most}")));
        }
    }
    if spec.labels.len() > MOST_LABELS {
        let why = format!("there are more than {MOST_LABELS}");
        return Err(Error::invalid("labels", why));
    }
    for (key, value) in &spec.labels {
        if key.is_empty() || !plain(key, 128) || !plain(value, 256) {
            let key: String = key.chars().take(80).collect();
            let why = "must be 1 to 128 characters, its value at most 256";
            return Err(Error::invalid(format!("labels.{key}"), why));
        }
    }
    Ok(())
}

impl Core {
    /// A machine by its id.
    pub fn machine(&self, id: &str) -> Result<Arc<Kept<Machine>>> {
        self.tables().machines.get(id).cloned().ok_or_else(|| {
            let id: String = id.chars().take(140).collect();
            Error::not_found(format!("there is no machine {id}"))
                .with_hint("see those there are: strata machine list")
        })
    }

    /// All machines, by id.
    pub fn machines(&self) -> Vec<Arc<Kept<Machine>>> {
        self.tables().machines.values().cloned().collect()
    }

    /// Adds a machine. The same again is the same.
    pub async fn add_machine(
        &self,
        who: &Who,
        id: &MachineId,
        spec: MachineSpec,
    ) -> Result<(Arc<Kept<Machine>>, bool)> {
        who.everywhere()?;
        check(&spec)?;
        let known = |known: Arc<Kept<Machine>>| match known.spec == spec {
            true => Ok((known, false)),
            false => Err(Error::already_exists(format!(
                "machine {id} is there already, and is another"
            ))
            .with_hint("change it, or remove it first: strata machine remove")),
        };
        if let Ok(found) = self.machine(id.as_str()) {
            return known(found);
        }
        if self.node(id.as_str()).is_ok() {
            return Err(
                Error::already_exists(format!("there is a node {id} already"))
                    .in_field("id")
                    .with_hint("the node of a machine has the machine's id: choose another"),
            );
        }
        let key = keys::machine(id);
        let record = encode(&Machine::new(id.clone(), spec.clone()))?;
        let made = Transaction::new().if_absent(&*key).put(&*key, record);
        match self.commit(made).await {
            Ok(_) => Ok((self.machine(id.as_str())?, true)),
            Err(StoreError::Conflict { key }) => {
                self.caught_up(&key).await?;
                known(self.machine(id.as_str())?)
            }
            Err(error) => Err(public(error)),
        }
    }

    /// Says something else of a machine. While it is in use, only its labels
    /// can change.
    pub async fn update_machine(
        &self,
        who: &Who,
        id: &str,
        spec: &MachineSpec,
        precondition: Precondition,
    ) -> Result<Arc<Kept<Machine>>> {
        who.everywhere()?;
        check(spec)?;
        self.change_machine(As::Anybody, id, precondition, |now| {
            let labels_only = MachineSpec {
                labels: now.spec.labels.clone(),
                ..spec.clone()
            } == now.spec;
            if (now.phase != MachinePhase::Available || now.cluster.is_some()) && !labels_only {
                return Err(Error::wrong_state(format!(
                    "machine {id} is {}: only its labels can be changed while it is in use",
                    now.phase
                ))
                .with_hint("bring it down first: strata hypervisor destroy"));
            }
            let mut next = now.clone();
            next.spec = spec.clone();
            Ok(next)
        })
        .await
    }

    /// Takes a machine that is down out of the inventory.
    pub async fn remove_machine(
        &self,
        who: &Who,
        id: &str,
        precondition: Precondition,
    ) -> Result<()> {
        who.everywhere()?;
        for _ in 0..32 {
            let now = self.machine(id)?;
            precondition.check(&now)?;
            if let Some(cluster) = &now.cluster {
                let why = format!("machine {id} is of cluster {cluster}");
                return Err(Error::wrong_state(why)
                    .with_hint("scale the cluster down, or delete it, first"));
            }
            if now.phase != MachinePhase::Available {
                return Err(Error::wrong_state(format!("machine {id} is {}", now.phase))
                    .with_hint("bring it down first: strata hypervisor destroy"));
            }
            let key = keys::machine(&now.id);
            let gone = Transaction::new()
                .if_unchanged(&*key, now.revision)
                .delete(key);
            match self.commit(gone).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(format!("{id} changes too fast")))
    }

    /// Changes what is known of a machine, as the server that leads.
    pub(crate) async fn lead_machine(
        &self,
        id: &str,
        rule: impl FnMut(&Machine) -> Result<Machine>,
    ) -> Result<Arc<Kept<Machine>>> {
        self.change_machine(As::Leader, id, Precondition::default(), rule)
            .await
    }

    async fn change_machine(
        &self,
        who: As,
        id: &str,
        precondition: Precondition,
        mut rule: impl FnMut(&Machine) -> Result<Machine>,
    ) -> Result<Arc<Kept<Machine>>> {
        for _ in 0..32 {
            let now = self.machine(id)?;
            precondition.check(&now)?;
            let next = rule(&now)?;
            if next == now.record {
                return Ok(now);
            }
            let key = keys::machine(&now.id);
            let transaction = Transaction::new()
                .if_unchanged(&*key, now.revision)
                .put(&*key, encode(&next)?);
            let written = match who {
                As::Anybody => self.commit(transaction).await,
                As::Leader => self.commit_as_leader(transaction).await,
            };
            match written {
                Ok(_) => return self.machine(id),
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(format!("{id} changes too fast")))
    }

    /// What a machine is good for: as its node tells it now, or as was found
    /// when it was last up.
    pub fn machine_capabilities(&self, machine: &Machine) -> Vec<Capability> {
        match self.node(machine.id.as_str()) {
            Ok(node) if machine.phase == MachinePhase::Up => capabilities_of(&node),
            _ => machine.capabilities.clone(),
        }
    }

    /// What can be done with a machine, and why in words.
    pub fn hypervisor_state(&self, machine: &Machine) -> (HypervisorState, String) {
        if let Some(cluster) = &machine.cluster {
            let why = format!("it is a machine of cluster {cluster}");
            return (HypervisorState::Unknown, why);
        }
        let failed = machine.failure.as_ref();
        let failed = failed.map(|it| format!("{} failed: {}", it.phase, it.why));
        match machine.phase {
            MachinePhase::Available => (
                HypervisorState::AvailableToCreate,
                failed.unwrap_or_default(),
            ),
            MachinePhase::Up => {
                let node = self.node(machine.id.as_str());
                match node.as_ref().map(|node| node.condition) {
                    Ok(_) if machine.power == PowerState::Off => (
                        HypervisorState::Unknown,
                        "it is off; create it to bring it up, or destroy it".into(),
                    ),
                    Ok(NodeCondition::Ready) => {
                        (HypervisorState::AvailableToDestroy, String::new())
                    }
                    Ok(NodeCondition::Lost) => (
                        HypervisorState::Unknown,
                        "its node is lost; see its console, create it to restart it, or destroy it"
                            .into(),
                    ),
                    _ => (
                        HypervisorState::Unknown,
                        "its node has not come or has left; see its console, create it to boot it \
                         again, or destroy it"
                            .into(),
                    ),
                }
            }
            phase => {
                let why = match failed {
                    Some(failed) => format!("{failed}; destroy it to try again"),
                    None => format!("it is {phase}"),
                };
                (HypervisorState::Unknown, why)
            }
        }
    }

    /// Registers the node of a machine before it comes: closed, until the
    /// machine is proven. What it is labelled with goes with it.
    pub(crate) async fn expect_node(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<()> {
        let registration = super::Registration {
            name: name.to_owned(),
            subnet: None,
        };
        self.register_node(&registration).await?;
        let change = super::NodeChange {
            labels: labels.clone(),
            draining: Some(true),
            ..super::NodeChange::default()
        };
        self.change_node_for_operation(name, &change).await
    }

    /// The id of this control plane, which stays: for tags at providers, and
    /// for nodes, which keep what another one assigned.
    pub async fn run_id(&self) -> Result<String> {
        self.once(keys::RUN, || {
            let id = uuid::Uuid::now_v7().simple().to_string();
            // The end of it is chance; its beginning is the time.
            id[id.len() - 10..].to_owned()
        })
        .await
    }

    /// What the keys are made from that nodes share as witnesses.
    pub(crate) async fn witness_secret(&self) -> Result<Vec<u8>> {
        let made = || {
            let bytes: [u8; 32] = rand::random();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let secret = self.once(keys::WITNESS_SECRET, made).await?;
        Ok(secret.into_bytes())
    }

    /// A text that is made once, whichever server makes it.
    async fn once(&self, key: &str, make: impl Fn() -> String) -> Result<String> {
        for _ in 0..8 {
            if let Some(entry) = self.0.store.get(key).await.map_err(public)? {
                let text = String::from_utf8_lossy(&entry.value).into_owned();
                self.learn_identity(&text);
                return Ok(text);
            }
            let put = Transaction::new().if_absent(key).put(key, make());
            match self.commit(put).await {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(
            "what this control plane is known by cannot be written",
        ))
    }
}
