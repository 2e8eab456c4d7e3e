//! Something that happened, as it is told.

use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows by one with each, from 1 when the server starts.
    pub number: u64,
    /// When.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub at: String,
    /// `instance`, `workload`, `node` or `project`.
    pub kind: String,
    /// Of what.
    pub name: String,
    /// Its id, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whose it is, where it is somebody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// In words.
    pub message: String,
    /// How often it happened: what repeats itself is counted. None for once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 2))]
    pub count: Option<u64>,
    /// When it last happened, if more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub last_at: Option<String>,
}
