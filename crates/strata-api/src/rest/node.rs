//! The node resource.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_types::instance::Resources;

/// State of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum NodeStatus {
    /// Registered; no heartbeat received yet.
    #[default]
    Registered,
    /// Schedulable.
    Ready,
    /// Being drained; not schedulable.
    Draining,
    /// Being drained; deleted afterwards.
    Leaving,
    /// No heartbeat received for longer than its lease.
    Lost,
}

impl NodeStatus {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "REGISTERED",
            Self::Ready => "READY",
            Self::Draining => "DRAINING",
            Self::Leaving => "LEAVING",
            Self::Lost => "LOST",
        }
    }
}

impl std::fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Upper bounds of the capacity a node may report. A bound that is absent does
/// not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeLimits {
    /// CPU in millicores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u32>,
    /// Disk in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<u32>,
    /// Number of GPUs of all kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Whether the node may use the storage pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<bool>,
}

impl NodeLimits {
    /// Whether no bound is set.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A host that runs instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Name; also the ID.
    pub name: String,
    /// State.
    pub status: NodeStatus,
    /// Reason, for people.
    #[serde(default)]
    pub description: String,
    /// Subnet of its instances.
    pub subnet: String,
    /// Address at which other nodes reach its instances.
    #[serde(default)]
    pub address: String,
    /// Labels: those the node reports, overridden by those that were set.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Labels of its configuration that were not accepted: the scheduler
    /// ignores them until they are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requested_labels: BTreeMap<String, String>,
    /// Allocatable capacity.
    pub capacity: Resources,
    /// Resources reserved by its instances.
    pub reserved: Resources,
    /// Measured usage of the whole host.
    pub usage: Resources,
    /// Number of GPUs by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<String, u32>,
    /// Upper bounds of its capacity, set by an admin.
    #[serde(default, skip_serializing_if = "NodeLimits::is_none")]
    pub limits: NodeLimits,
    /// Number of instances on it.
    pub instances: usize,
    /// Whether it can run virtual machines.
    pub runs_vms: bool,
    /// Encryption of traffic to other nodes: `wireguard`, or `none` and the
    /// reason. Empty if the node has not reported it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub overlay_encryption: String,
    /// Instances on it without a record here: another control plane assigned
    /// them, or their records were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_instances: Vec<UnknownInstance>,
    /// Whether it is being drained.
    pub draining: bool,
    /// Version of its software.
    #[serde(default)]
    pub version: String,
    /// Time of registration.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// Time of the last change of state.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub changed_at: String,
}

/// An instance on a node without a record in this control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UnknownInstance {
    /// Unique ID.
    pub id: String,
    /// The control plane that assigned it; empty if unknown.
    #[serde(default)]
    pub control_plane: String,
    /// Whether it is running.
    pub runs: bool,
}

/// A record that this release cannot read. It is kept unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UnreadableRecord {
    /// Key in the store: kind and ID.
    pub key: String,
    /// Name in the record, as far as it can be read.
    #[serde(default)]
    pub name: String,
    /// Project in the record, as far as it can be read.
    #[serde(default)]
    pub project: String,
    /// Node in the record, as far as it can be read.
    #[serde(default)]
    pub node: String,
    /// Workload in the record, as far as it can be read.
    #[serde(default)]
    pub workload: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// A change to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodePatch {
    /// Labels to merge; `null` removes a label.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schema(nullable = false, value_type = Option<BTreeMap<String, Option<String>>>))]
    pub labels: Option<BTreeMap<String, Option<String>>>,
    /// Drains the node, or makes it schedulable again.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub draining: Option<bool>,
    /// Upper bounds of its capacity; replaces those set before. Admins only.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub limits: Option<NodeLimits>,
}

/// Rejects `null`; an absent field is `None`.
fn given<'de, D, T>(reader: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(reader).map(Some)
}
