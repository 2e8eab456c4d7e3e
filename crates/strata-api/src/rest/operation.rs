//! Long-running operations.

use serde::{Deserialize, Serialize};

/// State of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum OperationStatus {
    /// Queued.
    #[default]
    Scheduled,
    /// Running, or rolling back.
    Active,
    /// Failed or cancelled; its steps were rolled back.
    Failed,
    /// Completed.
    Completed,
}

impl OperationStatus {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "SCHEDULED",
            Self::Active => "ACTIVE",
            Self::Failed => "FAILED",
            Self::Completed => "COMPLETED",
        }
    }
}

/// A long-running operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Unique ID.
    pub id: String,
    /// Kind, e.g. `node-drain`.
    pub kind: String,
    /// State.
    pub status: OperationStatus,
    /// The present step, or why it failed.
    #[serde(default)]
    pub message: String,
    /// Principal that started it.
    pub owner: String,
    /// The resource it works on, e.g. `node/n1`.
    #[serde(default)]
    pub about: Vec<String>,
    /// Time of the request.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// Time of completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub ended_at: Option<String>,
    /// Steps that were started, in order.
    #[serde(default)]
    pub steps: Vec<OperationStep>,
    /// Steps that could not be rolled back; they are retried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
}

/// One step of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OperationStep {
    /// Name.
    pub name: String,
    /// State: `running`, `done`, `undoing`, `undone` or `stuck`.
    pub phase: String,
    /// Latest progress message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// Progress from 0 to 1, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
}

/// A log line of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OperationLine {
    /// Sequence number.
    pub number: u64,
    /// Timestamp.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub at: String,
    /// Step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Message.
    pub text: String,
}

/// Options of draining a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainRequest {
    /// Delete the node once it is drained.
    pub leave: bool,
}
