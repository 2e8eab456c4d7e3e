//! What is kept: one JSON text per record, so that a person can read an
//! export and a later version can add fields. Fields are added with a default
//! and never change their meaning; what cannot be done so is a migration.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strata_types::instance::{InstanceId, InstanceSpec, InstanceState, Resources, WorkloadId};
use strata_types::{Error, Label};

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
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
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
    /// Of its software.
    #[serde(default)]
    pub version: String,
    /// What it tells of itself.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What people say of it; goes before its own.
    #[serde(default)]
    pub own_labels: BTreeMap<String, String>,
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
    /// Whether it runs virtual machines.
    #[serde(default)]
    pub runs_vms: bool,
    /// The id of the storage pool that it reaches; empty when it reaches none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// Whether it follows its assignments, or only tells its status.
    #[serde(default)]
    pub follows: bool,
    /// Whether it is there.
    pub condition: NodeCondition,
    /// In words, why.
    #[serde(default)]
    pub description: String,
    /// It is being emptied, and takes nothing.
    #[serde(default)]
    pub draining: bool,
    /// It goes when it is empty.
    #[serde(default)]
    pub leaving: bool,
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
    /// Instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<i64>,
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Its name.
    pub name: Label,
    /// What it may have in all.
    #[serde(default)]
    pub quota: Quota,
    /// When it was made, in Unix milliseconds.
    pub created_at_ms: i64,
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
    /// Instances.
    pub instances: i64,
}

impl ProjectUse {
    pub(crate) fn add(&mut self, resources: &Resources) {
        self.cpu += i64::from(resources.cpu);
        self.memory += i64::from(resources.memory);
        self.disk += i64::from(resources.disk);
        self.instances += 1;
    }

    pub(crate) fn subtract(&mut self, resources: &Resources) {
        self.cpu -= i64::from(resources.cpu);
        self.memory -= i64::from(resources.memory);
        self.disk -= i64::from(resources.disk);
        self.instances -= 1;
    }
}

/// The text of a record.
pub(crate) fn encode(record: &impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(record)
        .map(Bytes::from)
        .map_err(|error| Error::internal(format!("a record cannot be written: {error}")))
}

/// The record of a text.
pub(crate) fn decode<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(value)
        .map_err(|error| Error::internal(format!("the record {key} cannot be read: {error}")))
}
