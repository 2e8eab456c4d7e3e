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
    /// What it has.
    pub capacity: Resources,
    /// What is kept free for its instances.
    pub reserved: Resources,
    /// What all of the machine uses, measured.
    pub usage: Resources,
    /// Kind and number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<String, u32>,
    /// How many instances are on it.
    pub instances: usize,
    /// Whether it runs virtual machines.
    pub runs_vms: bool,
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
}

/// What is given is something: `null` is not.
fn given<'de, D, T>(reader: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(reader).map(Some)
}
