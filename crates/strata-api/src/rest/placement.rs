//! Explanation of the placement of an instance.

use serde::{Deserialize, Serialize};

/// Explanation of the placement of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Node it would be assigned to if it were scheduled now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
    /// Message.
    pub summary: String,
    /// Every node, the best first.
    pub nodes: Vec<PlacementNode>,
}

/// Evaluation of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlacementNode {
    /// Name.
    pub name: String,
    /// Whether the instance fits.
    pub chosen: bool,
    /// The first constraint it violates, or the reasons for its score.
    pub reason: String,
}
