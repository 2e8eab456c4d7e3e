//! Machines of the inventory: added, changed, removed, and led through their
//! phases by operations. Which phase may follow which is a table
//! (`strata_types::machine`); nothing here gets around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use strata_store::{StoreError, Transaction};
use strata_types::cluster::ClusterName;
use strata_types::machine::{
    Capability, MachineFailure, MachineId, MachinePhase, MachineSpec, PowerState, ProviderKind,
};
use strata_types::{Error, Result};

use super::commit::{WriteDecision, Writer};
use super::record::{Node, NodeCondition, encode};
use super::resource::not_found;
use super::store_watch::public;
use super::tables::Versioned;
use super::{Core, Precondition, Principal, keys, now_ms};

/// A machine of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its id, and the name of its node.
    pub id: MachineId,
    pub spec: MachineSpec,
    /// Where it stands.
    #[serde(serialize_with = "stored_phase")]
    pub phase: MachinePhase,
    /// The last phase that failed, until one works.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "stored_failure"
    )]
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
    /// Its host name, as its provider last reported.
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
    AvailableToCreate,
    AvailableToDestroy,
}

impl HypervisorState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::AvailableToCreate => "AVAILABLE_TO_CREATE",
            Self::AvailableToDestroy => "AVAILABLE_TO_DESTROY",
        }
    }
}

/// Records have phases by their first names, so that earlier releases on the
/// same etcd read them; both names are read.
#[allow(clippy::trivially_copy_pass_by_ref)] // for serde
fn stored_phase<S: Serializer>(
    phase: &MachinePhase,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(match phase {
        MachinePhase::Allocating => "TAKING",
        MachinePhase::Verifying => "PROVING",
        other => other.as_str(),
    })
}

fn stored_failure<S: Serializer>(
    failure: &Option<MachineFailure>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Stored<'a> {
        #[serde(serialize_with = "stored_phase")]
        phase: MachinePhase,
        why: &'a str,
        at_ms: i64,
    }
    let stored = failure.as_ref().map(|failure| Stored {
        phase: failure.phase,
        why: &failure.why,
        at_ms: failure.at_ms,
    });
    stored.serialize(to)
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
    pub(crate) fn set_phase(&mut self, next: MachinePhase, operation: &str) -> Result<()> {
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

    /// Threads: measured, or as specified, or what a virtual machine has where
    /// neither is known.
    pub fn threads(&self) -> u32 {
        let usual = (self.spec.provider == ProviderKind::Qemu).then_some(DEFAULT_VM_CPUS);
        self.cpu.or(self.spec.cpu).or(usual).unwrap_or(0)
    }

    /// MB: measured, or as specified, or what a virtual machine has where
    /// neither is known.
    pub fn megabytes(&self) -> u64 {
        let usual = (self.spec.provider == ProviderKind::Qemu).then_some(DEFAULT_VM_RAM);
        self.ram.or(self.spec.ram).or(usual).unwrap_or(0)
    }
}

/// What a node reports that its machine is good for.
pub(crate) fn capabilities_of(node: &Node) -> Vec<Capability> {
    let has_gpu = node.gpus.values().any(|count| *count > 0);
    let storage = (!node.pool.is_empty()).then_some(Capability::Storage);
    let gpu = has_gpu.then_some(Capability::Gpu);
    storage.into_iter().chain(gpu).collect()
}

/// What a virtual machine has whose specification names nothing: as its driver
/// makes it.
const DEFAULT_VM_CPUS: u32 = 1;
const DEFAULT_VM_RAM: u64 = 1024;

/// The most labels that a machine has.
const MAX_LABELS: usize = 100;

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
    if spec.labels.len() > MAX_LABELS {
        let why = format!("there are more than {MAX_LABELS}");
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
    pub fn machine(&self, id: &str) -> Result<Arc<Versioned<Machine>>> {
        self.find(id)
    }

    /// All machines, by id.
    pub fn machines(&self) -> Vec<Arc<Versioned<Machine>>> {
        self.all()
    }

    /// Adds a machine. The same again is the same.
    pub async fn add_machine(
        &self,
        principal: &Principal,
        id: &MachineId,
        spec: MachineSpec,
    ) -> Result<(Arc<Versioned<Machine>>, bool)> {
        principal.require_all_projects()?;
        check(&spec)?;
        let known = |known: Arc<Versioned<Machine>>| match known.spec == spec {
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
        match self.commit_effect(made, &key).await {
            Ok(_) => Ok((self.machine(id.as_str())?, true)),
            Err(StoreError::Conflict { key }) => {
                self.caught_up(&key).await?;
                known(self.machine(id.as_str())?)
            }
            Err(error) => Err(public(error)),
        }
    }

    /// Changes the specification of a machine. While it is in use, only its
    /// labels can change.
    pub async fn update_machine(
        &self,
        principal: &Principal,
        id: &str,
        spec: &MachineSpec,
        precondition: Precondition,
    ) -> Result<Arc<Versioned<Machine>>> {
        principal.require_all_projects()?;
        check(spec)?;
        self.change_machine(Writer::AnyServer, id, precondition, |now| {
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
        principal: &Principal,
        id: &str,
        precondition: Precondition,
    ) -> Result<()> {
        principal.require_all_projects()?;
        let key = self.machine(id)?.id.clone();
        let removed = self.change::<Machine>(Writer::AnyServer, &key, |now| {
            precondition.check(now)?;
            if let Some(cluster) = &now.cluster {
                let why = format!("machine {id} is of cluster {cluster}");
                return Err(Error::wrong_state(why)
                    .with_hint("scale the cluster down, or delete it, first"));
            }
            if now.phase != MachinePhase::Available {
                return Err(Error::wrong_state(format!("machine {id} is {}", now.phase))
                    .with_hint("bring it down first: strata hypervisor destroy"));
            }
            Ok(WriteDecision::Delete)
        });
        removed.await.map(drop)
    }

    /// Changes what is known of a machine, as the server that leads.
    pub(crate) async fn lead_machine(
        &self,
        id: &str,
        rule: impl FnMut(&Machine) -> Result<Machine>,
    ) -> Result<Arc<Versioned<Machine>>> {
        self.change_machine(Writer::Leader, id, Precondition::default(), rule)
            .await
    }

    async fn change_machine(
        &self,
        writer: Writer,
        id: &str,
        precondition: Precondition,
        mut rule: impl FnMut(&Machine) -> Result<Machine>,
    ) -> Result<Arc<Versioned<Machine>>> {
        let key = self.machine(id)?.id.clone();
        let changed = self.change::<Machine>(writer, &key, |now| {
            precondition.check(now)?;
            Ok(WriteDecision::replace(&now.record, rule(now)?))
        });
        changed.await?.ok_or_else(|| not_found::<Machine>(id))
    }

    /// What a machine is good for: as its node reports it now, or as was found
    /// when it was last up.
    pub fn machine_capabilities(&self, machine: &Machine) -> Vec<Capability> {
        match self.node(machine.id.as_str()) {
            Ok(node) if machine.phase == MachinePhase::Up => capabilities_of(&node),
            _ => machine.capabilities.clone(),
        }
    }

    /// What can be done with a machine, and why for people.
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
        // A store that was emptied is given no new one.
        if let Some(known) = self.known_identity() {
            return Ok(known);
        }
        let made = || {
            let id = uuid::Uuid::now_v7().simple().to_string();
            // The end of it is chance; its beginning is the time.
            id[id.len() - 10..].to_owned()
        };
        let id = self.once(keys::RUN, made).await?;
        self.read_identity(&id);
        Ok(id)
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
                return Ok(String::from_utf8_lossy(&entry.value).into_owned());
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

#[cfg(test)]
mod tests {
    use strata_types::machine::MachineId;

    use super::*;

    #[test]
    fn record_has_phases_by_their_first_names_and_is_read_by_both() {
        let text = r#"{"id": "m1", "spec": {"provider": "local"}, "phase": "PROVING",
            "failure": {"phase": "TAKING", "why": "no", "atMs": 1},
            "createdAtMs": 0, "changedAtMs": 0}"#;
        let machine: Machine = serde_json::from_str(text).unwrap();
        let failed = machine.failure.as_ref().map(|failure| failure.phase);
        assert_eq!(machine.id, "m1".parse::<MachineId>().unwrap());
        assert_eq!(machine.phase, MachinePhase::Verifying);
        assert_eq!(failed, Some(MachinePhase::Allocating));

        let stored = serde_json::to_value(&machine).unwrap();
        assert_eq!(stored["phase"], "PROVING");
        assert_eq!(
            stored["failure"],
            serde_json::json!({"phase": "TAKING", "why": "no", "atMs": 1})
        );
        let new = text
            .replace("PROVING", "VERIFYING")
            .replace("TAKING", "ALLOCATING");
        assert_eq!(serde_json::from_str::<Machine>(&new).unwrap(), machine);
    }
}
