//! A node, as it is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_types::instance::Resources;

/// Whether a node takes instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum NodeStatus {
    /// It is known and was not heard of yet.
    #[default]
    Registered,
    /// It takes instances.
    Ready,
    /// It is being emptied, and takes none.
    Draining,
    /// It is being emptied, and goes then.
    Leaving,
    /// Nothing was heard of it for longer than its lease.
    Lost,
}

impl NodeStatus {
    /// The word.
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

/// The most that a node may say it has. What is not given is not bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeLimits {
    /// Thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u32>,
    /// GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<u32>,
    /// GPUs of all kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Whether it may reach the storage pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<bool>,
}

impl NodeLimits {
    /// Whether nothing is bounded.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name, which is its id.
    pub name: String,
    /// Whether it takes instances.
    pub status: NodeStatus,
    /// In words, why.
    #[serde(default)]
    pub description: String,
    /// The addresses of its instances.
    pub subnet: String,
    /// Where other nodes send what is for its instances.
    #[serde(default)]
    pub address: String,
    /// Its own labels, and over them what people say.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Labels of its configuration that were not accepted: placement does not
    /// look at them until they are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requested_labels: BTreeMap<String, String>,
    /// What it has.
    pub capacity: Resources,
    /// What is kept free for its instances.
    pub reserved: Resources,
    /// What all of the machine uses, measured.
    pub usage: Resources,
    /// Kind and number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<String, u32>,
    /// The most that it may say it has, as an admin has set it.
    #[serde(default, skip_serializing_if = "NodeLimits::is_none")]
    pub limits: NodeLimits,
    /// How many instances are on it.
    pub instances: usize,
    /// Whether it runs virtual machines.
    pub runs_vms: bool,
    /// How it encrypts what it sends to other nodes: `wireguard`, or `none`
    /// and why. Empty: it is of a release that does not, or was not heard of.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub overlay_encryption: String,
    /// Instances on it that no record here is of: another control plane
    /// assigned them, or their records are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_instances: Vec<UnknownInstance>,
    /// Whether it is being emptied.
    pub draining: bool,
    /// Of its software.
    #[serde(default)]
    pub version: String,
    /// When it came.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// When it last came, was lost or came back.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub changed_at: String,
}

/// An instance on a node that no record is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UnknownInstance {
    /// Its id.
    pub id: String,
    /// The control plane that assigned it; empty where that is not known.
    #[serde(default)]
    pub control_plane: String,
    /// Whether it runs.
    pub runs: bool,
}

/// A record that this release cannot read. It is kept as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UnreadableRecord {
    /// Its key in the store: what it is, and its id.
    pub key: String,
    /// The name that it holds, as far as its text says.
    #[serde(default)]
    pub name: String,
    /// The project it is in.
    #[serde(default)]
    pub project: String,
    /// The node it is on.
    #[serde(default)]
    pub node: String,
    /// The workload it is of.
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
    /// What people say of it, merged; a label that is `null` goes.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schema(nullable = false, value_type = Option<BTreeMap<String, Option<String>>>))]
    pub labels: Option<BTreeMap<String, Option<String>>>,
    /// Empties it, or opens it again.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub draining: Option<bool>,
    /// The most that it may say it has, in place of what was set before. For
    /// admins.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "schema", schema(nullable = false))]
    pub limits: Option<NodeLimits>,
}

/// What is given is something: `null` is not.
fn given<'de, D, T>(reader: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(reader).map(Some)
}
