//! What is kept: one JSON text per record, so that a person can read an
//! export and a later version can add fields. Fields are added with a default
//! and never change their meaning; what cannot be done so is a migration.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strata_api::rest::NodeLimits;
use strata_types::instance::{
    DesiredState, InstanceId, InstanceSpec, InstanceState, RunPolicy, WorkloadId,
};
use strata_types::pod::RestartPolicy;
use strata_types::project::{ProjectDefaults, Quota};
use strata_types::{Error, Label};

use super::defaults::Defaulted;
use super::node_labels::LabelTrust;
use super::volume_names::own_volume;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    pub id: InstanceId,
    /// Its name, unique in the project.
    pub name: Label,
    /// The project that owns it.
    pub project: Label,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadId>,
    pub spec: InstanceSpec,
    /// Which amounts of the specification are defaults of its project.
    #[serde(default, skip_serializing_if = "Defaulted::is_none")]
    pub defaulted: Defaulted,
    #[serde(rename = "wanted", serialize_with = "lower_case")]
    pub desired_state: DesiredState,
    /// Grows with each change of the specification: then what a node has of it
    /// is replaced.
    pub generation: u64,
    /// Grows with each request to start it.
    #[serde(default)]
    pub starts: u64,
    pub state: InstanceState,
    /// The reason for the state, for people.
    #[serde(default)]
    pub description: String,
    /// It failed, and its node does not try again before its specification
    /// changes or it is started. Cleared with the state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// What callers who are limited to projects are shown in place of the
    /// description, where that names nodes or instances of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_description: Option<String>,
    /// Name of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Grows with each placement.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch: u64,
    /// Where it was, until that node has reported that nothing of it runs there
    /// any more: before, it is assigned to no other node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<PendingRelease>,
    /// The record is of a backup: it may have been moved since, to a node that
    /// has not reported what it has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// Instances that make room for it where it is: before they have ended
    /// there, that node is not assigned it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AwaitedEviction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// How often it was started again.
    #[serde(default)]
    pub restarts: u32,
    /// How it last ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The result of its health check, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Nodes that refused it, and why; cleared when it runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refusals: BTreeMap<String, String>,
    /// Of its project, as long as it is there.
    #[serde(default, skip_serializing_if = "is_never")]
    pub project_succeeds_at_ms: i64,
    /// A caller who is limited to projects requested it: the volumes of nodes
    /// that are created for it have a size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sized_volumes: bool,
    /// The principal that created it.
    #[serde(default)]
    pub owner: String,
    /// When, in Unix milliseconds.
    pub created_at_ms: i64,
    /// When its state last changed.
    pub changed_at_ms: i64,
}

/// Records have it in lower case, the REST API in upper case.
#[allow(clippy::trivially_copy_pass_by_ref)] // for serde
fn lower_case<S: serde::Serializer>(state: &DesiredState, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match state {
        DesiredState::Running => "running",
        DesiredState::Stopped => "stopped",
        DesiredState::Gone => "gone",
    })
}

/// An earlier placement that is not confirmed to be over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRelease {
    /// Name of the node.
    pub node: String,
    /// The placement it belongs to.
    #[serde(default)]
    pub epoch: u64,
    /// The node is lost, and its lease has ended unless its witnesses extend
    /// it: it may be assigned to those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// It was *available* there: no lease ends it, so what is exclusive by now
    /// waits for the node also while that is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unleased: bool,
    /// The generation that the node had when it was lost; 0 where the placement
    /// was over for another reason. The node has it again if it returns first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u64,
}

/// A placement of another instance that ends so that there is room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedEviction {
    /// Id of the instance.
    pub instance: InstanceId,
    /// The placement it belongs to.
    #[serde(default)]
    pub epoch: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde requires
fn is_no_port(port: &u16) -> bool {
    *port == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde requires
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Instance {
    /// Whether the node it is on may be assigned it: nothing of it runs
    /// elsewhere.
    pub(crate) fn is_assignable(&self) -> bool {
        self.leaving.iter().all(|from| self.may_start_beside(from))
    }

    /// Whether it may be assigned although this placement is not confirmed to be
    /// over.
    pub(crate) fn may_start_beside(&self, from: &PendingRelease) -> bool {
        from.lost && (!from.unleased || self.is_available())
    }

    /// Whether two runs of it may overlap.
    pub(crate) fn is_available(&self) -> bool {
        self.spec.placement.runs == RunPolicy::Available
    }

    /// Its placement on a node that is not confirmed to be over.
    pub(crate) fn leaves(&self, node: &str) -> Option<&PendingRelease> {
        self.leaving.iter().find(|from| from.node == node)
    }

    /// Whether a node has it as it is to be.
    pub(crate) fn is_up(&self) -> bool {
        self.state == InstanceState::Running
    }

    /// Whether its node may have it. While another one has to confirm first that
    /// it is gone, it is not assigned; but the node that a backup names may have
    /// had it all along, also if it was found on another one since.
    pub(crate) fn may_be_assigned(&self) -> bool {
        self.is_assignable() || self.restored
    }

    /// Takes it off its node, which has to confirm that it is gone, unless it
    /// was never assigned there.
    pub(crate) fn leave_node(&mut self) {
        self.leave_node_as(self.spec.placement.runs);
    }

    /// The same, where the node has it by an earlier specification.
    pub(crate) fn leave_node_as(&mut self, runs: RunPolicy) {
        let was_assigned = self.may_be_assigned();
        let Some(node) = self.node.take() else {
            return;
        };
        if was_assigned {
            self.note_leaving(node, false, runs);
        }
    }

    /// Records that it may still run on a node, where it ran like this. What ran
    /// there before by a lower promise may run there as well.
    pub(crate) fn note_leaving(&mut self, node: String, lost: bool, runs: RunPolicy) {
        let was_unleased = self.leaves(&node).is_some_and(|from| from.unleased);
        self.leaving.retain(|from| from.node != node);
        self.leaving.push(PendingRelease {
            node,
            epoch: self.epoch,
            lost,
            unleased: was_unleased || runs == RunPolicy::Available,
            generation: 0,
        });
    }

    /// Whether it runs on a node by this placement, or is not confirmed to have
    /// ended there.
    pub(crate) fn occupies(&self, node: &str, epoch: u64) -> bool {
        let is_there = self.node.as_deref() == Some(node) && self.epoch == epoch;
        let leaves = self.leaves(node);
        is_there || leaves.is_some_and(|from| from.epoch == epoch && !from.lost)
    }

    pub(crate) fn place_on(&mut self, node: &str) {
        self.node = Some(node.to_owned());
        self.after.clear();
        self.epoch = self.epoch.saturating_add(1);
    }

    /// The name on its node, or in the pool, of a volume that it names.
    pub(crate) fn own_volume(&self, name: &Label) -> Result<Label, Error> {
        own_volume(&self.project, self.project_succeeds_at_ms, name)
    }

    /// The specification as it was requested, without defaults.
    pub(crate) fn asked_for(&self) -> InstanceSpec {
        self.defaulted.without(&self.spec)
    }

    /// Whether nothing more becomes of it by itself: it has ended, or failed
    /// and is not tried again. What has no node is tried again by placement,
    /// what has one as its restart policy says, unless its node has given up.
    pub fn has_ended(&self) -> bool {
        let runs = self.desired_state == DesiredState::Running;
        match self.state {
            InstanceState::Terminated => !runs || self.spec.restart != RestartPolicy::Always,
            InstanceState::Failed | InstanceState::Crashed => {
                let is_last = self.given_up || self.spec.restart == RestartPolicy::Never;
                !runs || (self.node.is_some() && is_last)
            }
            _ => false,
        }
    }

    /// Why it is so, as far as a caller may know.
    pub fn description_for(&self, principal: &super::Principal) -> &str {
        match &self.limited_description {
            Some(limited) if principal.is_limited() => limited,
            _ => &self.description,
        }
    }
}

/// A template of instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub id: WorkloadId,
    /// Its name, unique in the project.
    pub name: Label,
    /// The project that owns it.
    pub project: Label,
    /// The specification of its instances.
    pub spec: InstanceSpec,
    /// It is being deleted: no more instances are made from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closing: bool,
    /// The principal that created it.
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
    /// It is known and did not connect yet.
    #[default]
    Registered,
    Ready,
    /// It was silent for longer than its lease.
    Lost,
}

/// What a node reports of itself, where it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodePhase {
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

/// How a node encrypts the overlay. All empty: it is of a release that did not,
/// or did not connect yet.
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
    /// Version of the software.
    #[serde(default)]
    pub version: String,
    /// What it reports itself.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What people set for it; goes before its own.
    #[serde(default)]
    pub own_labels: BTreeMap<String, String>,
    /// Labels of its configuration that were not accepted: placement ignores
    /// them. None in records from before labels were accepted.
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
    /// GPUs: kind and count.
    #[serde(default)]
    pub gpus: BTreeMap<String, u32>,
    /// The most that it may report to have, as an admin has set it.
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
    /// Whether it follows its assignments, or only reports its status.
    #[serde(default)]
    pub follows: bool,
    /// Whether it reports that it holds its lease, and confirms what has gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub holds_leases: bool,
    /// The longest lease that it may hold, in milliseconds: raised before it is
    /// sent a longer one, lowered once it has confirmed a shorter one. 0 in
    /// records from before it was recorded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease_ms: u64,
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
    /// Where it last followed the only server: the host, and its address there.
    /// Empty where there are several servers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub served_at: String,
    /// It has not reported what it has since the records were restored from a
    /// backup: it may run what the records have elsewhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unheard: bool,
    /// It does not follow its assignments, and did not take an instance in
    /// time: it gets none until it reads its instances or reports one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignores_instances: bool,
    /// What it reports of itself.
    #[serde(default, skip_serializing_if = "NodePhase::is_running")]
    pub phase: NodePhase,
    /// Whether it is there.
    #[serde(default)]
    pub condition: NodeCondition,
    /// It is lost by its own report, not by silence: nothing runs there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported_down: bool,
    /// It was removed while it was lost: a person has declared that nothing runs
    /// there any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared_gone: bool,
    /// The description, for people.
    #[serde(default)]
    pub description: String,
    /// It is being emptied, and takes nothing.
    #[serde(default)]
    pub draining: bool,
    /// It goes when it is empty.
    #[serde(default)]
    pub leaving: bool,
    /// It was open until it left by itself: it is open when it comes back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_itself: bool,
    /// It was removed: its certificates are revoked when it goes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// It was removed at once: its certificates are revoked, and once it is lost
    /// nothing of it is waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed_at_once: bool,
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
    /// All labels: its own, and over them what people set.
    pub fn all_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        labels.extend(self.own_labels.clone());
        labels
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "StoredProject")]
pub struct Project {
    pub name: Label,
    /// What an admin sets for it.
    #[serde(flatten)]
    pub settings: ProjectSettings,
    /// It is being deleted: nothing more is made in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closing: bool,
    /// When another project of this name was deleted, in Unix milliseconds; 0
    /// for none. What was that one's, its volumes and tokens, is not this one's.
    #[serde(default, skip_serializing_if = "is_never")]
    pub succeeds_at_ms: i64,
    /// When it was made, in Unix milliseconds.
    pub created_at_ms: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde requires
fn is_never(at_ms: &i64) -> bool {
    *at_ms == 0
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
    defaults: ProjectDefaults,
    #[serde(default)]
    allow_from: BTreeSet<Label>,
    #[serde(default)]
    privileged_ports: bool,
    #[serde(default)]
    closing: bool,
    #[serde(default)]
    succeeds_at_ms: i64,
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
            succeeds_at_ms: stored.succeeds_at_ms,
            created_at_ms: stored.created_at_ms,
        }
    }
}

/// The settings of a project, by an admin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectSettings {
    /// What it may have in all.
    pub quota: Quota,
    /// What its instances get where they name no amount.
    #[serde(skip_serializing_if = "ProjectDefaults::is_empty")]
    pub defaults: ProjectDefaults,
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

/// The project of requests that name none.
pub const DEFAULT_PROJECT: &str = "default";

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
