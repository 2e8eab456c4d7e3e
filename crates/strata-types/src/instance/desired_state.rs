//! The state in which an instance is to be. Records have it in lower case, the
//! REST API in upper case.

use serde::{Deserialize, Serialize};

/// Desired state of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum DesiredState {
    /// The instance runs.
    #[default]
    #[serde(alias = "running")]
    Running,
    /// The instance exists and is stopped.
    #[serde(alias = "stopped")]
    Stopped,
    /// The instance is deleted.
    #[serde(alias = "gone")]
    Gone,
}
