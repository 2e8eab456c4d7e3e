//! What is kept: one JSON text per record, so that a person can read an
//! export and a later version can add fields. Fields are added with a default
//! and never change their meaning; what cannot be done so is a migration.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strata_api::rest::NodeLimits;
use strata_types::instance::{InstanceId, InstanceSpec, InstanceState, WorkloadId};
use strata_types::pod::RestartPolicy;
use strata_types::{Error, Label};

use super::defaults::{Defaulted, Defaults};
use super::node_labels::LabelTrust;

/// What somebody wants of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// That it runs.
    #[default]
    Running,
    /// That it rests.
    Stopped,
    /// That it is gone.
    Gone,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// Its name, unique in the project.
    pub name: Label,
    /// Whose it is.
    pub project: Label,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadId>,
    /// What it is asked to be.
    pub spec: InstanceSpec,
    /// Which amounts of the specification are defaults of its project.
    #[serde(default, skip_serializing_if = "Defaulted::is_none")]
    pub defaulted: Defaulted,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// Grows with each change of the specification: then what a node has of it
    /// is replaced.
    pub generation: u64,
    /// Grows with each wish to start it.
    #[serde(default)]
    pub starts: u64,
    /// How it is.
    pub state: InstanceState,
    /// Why it is so, in words.
    #[serde(default)]
    pub description: String,
    /// What callers who are limited to projects are shown in place of the
    /// description, where that names nodes or instances of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_description: Option<String>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Grows with each placement.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch: u64,
    /// Where it was, until that node has said that nothing of it runs there any
    /// more: before, no other node is assigned it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<Leaving>,
    /// Instances that make room for it where it is: before they have ended
    /// there, that node is not assigned it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<MakesRoom>,
    /// Its address there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// How often it was started again.
    #[serde(default)]
    pub restarts: u32,
    /// How it last ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What its health check says, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Nodes that would not have it, and why; forgotten when it runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refusals: BTreeMap<String, String>,
    /// Who made it.
    #[serde(default)]
    pub owner: String,
    /// When, in Unix milliseconds.
    pub created_at_ms: i64,
    /// When its state last changed.
    pub changed_at_ms: i64,
}

/// An earlier placement that is not confirmed to be over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaving {
    /// Where.
    pub node: String,
    /// Which.
    #[serde(default)]
    pub epoch: u64,
    /// The node is lost, and its lease has ended unless its witnesses extend
    /// it: it may be assigned to those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// A placement of another instance that ends so that there is room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MakesRoom {
    /// Whose.
    pub instance: InstanceId,
    /// Which.
    #[serde(default)]
    pub epoch: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for
fn is_no_port(port: &u16) -> bool {
    *port == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Instance {
    /// Whether the node it is on may be assigned it: nothing of it runs
    /// elsewhere.
    pub(crate) fn is_assignable(&self) -> bool {
        self.leaving.iter().all(|from| from.lost)
    }

    /// Its placement on a node that is not confirmed to be over.
    pub(crate) fn leaves(&self, node: &str) -> Option<&Leaving> {
        self.leaving.iter().find(|from| from.node == node)
    }

    /// Whether a node has it as it is to be.
    pub(crate) fn is_up(&self) -> bool {
        self.state == InstanceState::Running
    }

    /// Takes it off its node, which has to confirm that it is gone. One that
    /// waited for that before was never assigned where it is now.
    pub(crate) fn leave_node(&mut self) {
        let was_assigned = self.is_assignable();
        let Some(node) = self.node.take() else {
            return;
        };
        if was_assigned {
            self.note_leaving(node, false);
        }
    }

    /// Remembers that it may still run on a node.
    pub(crate) fn note_leaving(&mut self, node: String, lost: bool) {
        self.leaving.retain(|from| from.node != node);
        let epoch = self.epoch;
        self.leaving.push(Leaving { node, epoch, lost });
    }

    /// Whether it runs on a node by this placement, or is not confirmed to have
    /// ended there.
    pub(crate) fn occupies(&self, node: &str, epoch: u64) -> bool {
        let is_there = self.node.as_deref() == Some(node) && self.epoch == epoch;
        let leaves = self.leaves(node);
        is_there || leaves.is_some_and(|from| from.epoch == epoch && !from.lost)
    }

    /// Places it.
    pub(crate) fn place_on(&mut self, node: &str) {
        self.node = Some(node.to_owned());
        self.after.clear();
        self.epoch += 1;
    }

    /// The specification as it was asked for, without defaults.
    pub(crate) fn asked_for(&self) -> InstanceSpec {
        self.defaulted.without(&self.spec)
    }

    /// Whether nothing more becomes of it by itself: it has ended, or failed
    /// and is not tried again. What has no node is tried again by placement,
    /// what has one as its restart policy says.
    pub fn has_ended(&self) -> bool {
        let runs = self.wanted == Wanted::Running;
        match self.state {
            InstanceState::Terminated => !runs || self.spec.restart != RestartPolicy::Always,
            InstanceState::Failed | InstanceState::Crashed => {
                !runs || (self.node.is_some() && self.spec.restart == RestartPolicy::Never)
            }
            _ => false,
        }
    }

    /// Why it is so, as far as a caller may know.
    pub fn description_for(&self, who: &super::Who) -> &str {
        match &self.limited_description {
            Some(limited) if who.is_limited() => limited,
            _ => &self.description,
        }
    }
}

/// A template of instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Its id.
    pub id: WorkloadId,
    /// Its name, unique in the project.
    pub name: Label,
    /// Whose it is.
    pub project: Label,
    /// What its instances are asked to be.
    pub spec: InstanceSpec,
    /// It is being deleted: no more instances are made from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closing: bool,
    /// Who made it.
    #[serde(default)]
    pub owner: String,
    /// When, in Unix milliseconds.
    pub created_at_ms: i64,
    /// When it was last changed.
    pub changed_at_ms: i64,
}

/// Whether a node takes instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeCondition {
    /// It is known and was not heard of yet.
    #[default]
    Registered,
    /// It is there.
    Ready,
    /// Nothing was heard of it for longer than its lease.
    Lost,
}

/// What a node says of itself, where it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodePhase {
    /// It takes instances.
    #[default]
    Running,
    /// It takes none yet; those it has stay.
    Starting,
    /// It takes none, and those it has are placed elsewhere.
    Stopping,
}

impl NodePhase {
    fn is_running(&self) -> bool {
        *self == Self::Running
    }
}

/// How a node encrypts the overlay. All empty: it is of a release that did
/// not, or was not heard of yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OverlayEncryption {
    /// Its WireGuard key in base64; empty when it does not encrypt.
    pub key: String,
    /// The UDP port that it listens on.
    pub port: u16,
    /// Why it does not encrypt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unencrypted_reason: String,
}

impl OverlayEncryption {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// As people are shown it; empty where nothing is known.
    pub fn describe(&self) -> String {
        match (self.key.is_empty(), self.unencrypted_reason.is_empty()) {
            (false, _) => "wireguard".to_owned(),
            (true, false) => format!("none: {}", self.unencrypted_reason),
            (true, true) => String::new(),
        }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// The name of its certificate.
    pub name: String,
    /// The addresses of its instances.
    pub subnet: String,
    /// Where other nodes send what is for its instances.
    #[serde(default)]
    pub address: String,
    /// Whether its connection came from there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub address_proven: bool,
    /// It runs on the host of the server, which it calls by loopback: others
    /// reach it where they reach the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_server: bool,
    /// Of its software.
    #[serde(default)]
    pub version: String,
    /// What it tells of itself.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What people say of it; goes before its own.
    #[serde(default)]
    pub own_labels: BTreeMap<String, String>,
    /// Labels of its configuration that were not accepted: placement does not
    /// look at them. None in records from before labels were accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_labels: Option<BTreeMap<String, String>>,
    /// Whether the labels of its configuration need a person to accept them.
    #[serde(default, skip_serializing_if = "LabelTrust::is_never")]
    pub label_trust: LabelTrust,
    /// Thousandths of a core.
    #[serde(default)]
    pub cpu: u64,
    /// Bytes.
    #[serde(default)]
    pub memory: u64,
    /// Bytes.
    #[serde(default)]
    pub disk: u64,
    /// Kind and number.
    #[serde(default)]
    pub gpus: BTreeMap<String, u32>,
    /// The most that it may say it has, as an admin has set it.
    #[serde(default, skip_serializing_if = "NodeLimits::is_none")]
    pub limits: NodeLimits,
    /// Whether it runs virtual machines.
    #[serde(default)]
    pub runs_vms: bool,
    /// The id of the storage pool that it reaches; empty when it reaches none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// How it encrypts the overlay.
    #[serde(default, skip_serializing_if = "OverlayEncryption::is_unknown")]
    pub overlay: OverlayEncryption,
    /// Whether it follows its assignments, or only tells its status.
    #[serde(default)]
    pub follows: bool,
    /// Whether it says that it holds its lease, and confirms what has gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub holds_leases: bool,
    /// It was promised that nothing it runs is started elsewhere, and has not
    /// confirmed since that it holds a lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lease_waived: bool,
    /// The UDP port on which it is a witness for others; 0 when it is none.
    #[serde(default, skip_serializing_if = "is_no_port")]
    pub witness_port: u16,
    /// The nodes that can extend its lease, as it has confirmed: what it had
    /// when it was lost goes to these alone. None: its lease is not extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<BTreeSet<String>>,
    /// It does not follow its assignments, and did not take an instance in
    /// time: it gets none until it reads its instances or reports one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignores_instances: bool,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "NodePhase::is_running")]
    pub phase: NodePhase,
    /// Whether it is there.
    #[serde(default)]
    pub condition: NodeCondition,
    /// It is lost by its own report, not by silence: nothing runs there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported_down: bool,
    /// In words, why.
    #[serde(default)]
    pub description: String,
    /// It is being emptied, and takes nothing.
    #[serde(default)]
    pub draining: bool,
    /// It goes when it is empty.
    #[serde(default)]
    pub leaving: bool,
    /// It was removed: its certificates are revoked when it goes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// The hashes of its keys: the one it uses, and behind it the one it was
    /// last given. None in records from before keys were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The operation that brings its machine up and expects it; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected_by: String,
    /// When it came, in Unix milliseconds.
    pub created_at_ms: i64,
    /// When its condition last changed.
    pub changed_at_ms: i64,
}

impl Node {
    /// All labels: its own, and over them what people say.
    pub fn all_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        labels.extend(self.own_labels.clone());
        labels
    }
}

/// What a project may have in all. What is `None` is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Quota {
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<i64>,
    /// MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<i64>,
    /// GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<i64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// Instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<i64>,
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "StoredProject")]
pub struct Project {
    /// Its name.
    pub name: Label,
    /// What an admin says of it.
    #[serde(flatten)]
    pub settings: ProjectSettings,
    /// It is being deleted: nothing more is made in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closing: bool,
    /// When it was made, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// A project as it is read: a type with all of its fields, so that a field it
/// does not know is found (`strata_store::record`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredProject {
    name: Label,
    #[serde(default)]
    quota: Quota,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    allow_from: BTreeSet<Label>,
    #[serde(default)]
    privileged_ports: bool,
    #[serde(default)]
    closing: bool,
    created_at_ms: i64,
}

impl From<StoredProject> for Project {
    fn from(stored: StoredProject) -> Self {
        Self {
            name: stored.name,
            settings: ProjectSettings {
                quota: stored.quota,
                defaults: stored.defaults,
                allow_from: stored.allow_from,
                privileged_ports: stored.privileged_ports,
            },
            closing: stored.closing,
            created_at_ms: stored.created_at_ms,
        }
    }
}

/// What an admin says of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectSettings {
    /// What it may have in all.
    pub quota: Quota,
    /// What its instances get where they name no amount.
    #[serde(skip_serializing_if = "Defaults::is_empty")]
    pub defaults: Defaults,
    /// Projects whose instances may reach those of this one, and find them by
    /// name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allow_from: BTreeSet<Label>,
    /// Callers who are limited to it may publish ports below 1024, and those
    /// that Strata itself uses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub privileged_ports: bool,
}

impl From<Quota> for ProjectSettings {
    fn from(quota: Quota) -> Self {
        Self {
            quota,
            ..Self::default()
        }
    }
}

/// The project of whoever names none.
pub const DEFAULT_PROJECT: &str = "default";

/// What the instances of a project take of its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProjectUse {
    /// Thousandths of a core.
    pub cpu: i64,
    /// MB.
    pub memory: i64,
    /// GB.
    pub disk: i64,
    /// Processes and threads.
    pub pids: i64,
    /// Instances.
    pub instances: i64,
}

impl ProjectUse {
    /// What one instance takes.
    pub(crate) fn of(spec: &InstanceSpec) -> Self {
        Self {
            cpu: spec.resources.cpu.into(),
            memory: spec.resources.memory.into(),
            disk: spec.resources.disk.into(),
            pids: spec.max_pids().into(),
            instances: 1,
        }
    }
}

impl std::ops::AddAssign for ProjectUse {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.disk += other.disk;
        self.pids += other.pids;
        self.instances += other.instances;
    }
}

impl std::ops::SubAssign for ProjectUse {
    fn sub_assign(&mut self, other: Self) {
        self.cpu -= other.cpu;
        self.memory -= other.memory;
        self.disk -= other.disk;
        self.pids -= other.pids;
        self.instances -= other.instances;
    }
}

/// The text of a record.
pub(crate) fn encode(record: &impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(record)
        .map(Bytes::from)
        .map_err(|error| Error::internal(format!("a record cannot be written: {error}")))
}

/// The record of a text. What this release does not know of it is left out:
/// to write it again, use [`encode_over`], or have it in the tables.
pub(crate) fn decode<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, Error> {
    let read = strata_store::record::decode(value);
    read.map(|(record, _)| record)
        .map_err(|error| unread(key, &error))
}

/// Why a record is not read.
pub(crate) fn unread(key: &str, error: &serde_json::Error) -> Error {
    Error::internal(format!("the record {key} cannot be read: {error}"))
}

/// The text of a record in the place of `before`, with what this release does
/// not know of that.
pub(crate) fn encode_over<T>(before: &[u8], record: &T) -> Result<Bytes, Error>
where
    T: Serialize + DeserializeOwned,
{
    let text = encode(record)?;
    let Ok((_, unknown)) = strata_store::record::decode::<T>(before) else {
        return Ok(text);
    };
    let merged = unknown.merge(before, &text);
    merged
        .map(Bytes::from)
        .map_err(|error| Error::internal(format!("a record cannot be written: {error}")))
}
