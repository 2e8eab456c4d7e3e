//! Why an instance is where it is, as it is told.

use serde::{Deserialize, Serialize};

/// Why an instance is where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where it would go if it were placed now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
    /// In words.
    pub summary: String,
    /// Every node, the best first.
    pub nodes: Vec<PlacementNode>,
}

/// What is said of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlacementNode {
    /// Its name.
    pub name: String,
    /// Whether it would be taken now.
    pub chosen: bool,
    /// The first reason against it, or what speaks for it.
    pub reason: String,
}
