//! Long actions, as they are told.

use serde::{Deserialize, Serialize};

/// How a long action stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum OperationStatus {
    /// It waits its turn.
    #[default]
    Scheduled,
    /// It is under way, forwards or back.
    Active,
    /// It did not come to its end; what it had done is undone.
    Failed,
    /// It is done.
    Completed,
}

impl OperationStatus {
    /// The word, as it goes over the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "SCHEDULED",
            Self::Active => "ACTIVE",
            Self::Failed => "FAILED",
            Self::Completed => "COMPLETED",
        }
    }
}

/// A long action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Its id.
    pub id: String,
    /// What is done, for example `node-drain`.
    pub kind: String,
    /// How it stands.
    pub status: OperationStatus,
    /// What is being done, or why it failed, in words.
    #[serde(default)]
    pub message: String,
    /// Who asked for it.
    pub owner: String,
    /// What it is about, for example `node/n1`.
    #[serde(default)]
    pub about: Vec<String>,
    /// When it was asked for.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub created_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub ended_at: Option<String>,
    /// Steps that were begun, in their order.
    #[serde(default)]
    pub steps: Vec<OperationStep>,
    /// What could not be undone; it is tried again from time to time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
}

/// One step of a long action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OperationStep {
    /// Its name.
    pub name: String,
    /// `running`, `done`, `undoing`, `undone` or `stuck`.
    pub phase: String,
    /// What it told last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// How much of it is done, from 0 to 1, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
}

/// A line of what happened in a long action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OperationLine {
    /// Grows by one with each.
    pub number: u64,
    /// When.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub at: String,
    /// In which step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// In words.
    pub text: String,
}

/// How a node is to be emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainRequest {
    /// It is forgotten when it is empty.
    pub leave: bool,
}
