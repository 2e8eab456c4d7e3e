//! The event resource.

use serde::{Deserialize, Serialize};

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Sequence number, from 1 when the server starts.
    pub number: u64,
    /// Timestamp.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub at: String,
    /// Kind of the resource, e.g. `instance`, `workload`, `node` or `project`.
    pub kind: String,
    /// Name of the resource.
    pub name: String,
    /// ID of the resource, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Project of the resource, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Message.
    pub message: String,
    /// Number of occurrences, if the event repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 2))]
    pub count: Option<u64>,
    /// Time of the last occurrence, if the event repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub last_at: Option<String>,
}
