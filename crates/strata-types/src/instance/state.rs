//! The state of an instance: one type inside, a table to and from each enum
//! of the wire (in `strata-api`), which number them differently.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum InstanceState {
    /// Not assigned to a node yet.
    #[default]
    Scheduling,
    /// Assigned; the node has not started it yet.
    Scheduled,
    /// The node prepares and starts it.
    Starting,
    /// Running.
    Running,
    /// Being stopped.
    Stopping,
    /// Stopped on request.
    Stopped,
    /// Exited with an error.
    Crashed,
    /// Could not be scheduled, pulled or started.
    Failed,
    /// Being deleted.
    Destroying,
    /// Exited successfully, or deleted.
    Terminated,
}

impl InstanceState {
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::Scheduling,
        Self::Scheduled,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Crashed,
        Self::Failed,
        Self::Destroying,
        Self::Terminated,
    ];

    /// The name on the wire of the REST API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduling => "SCHEDULING",
            Self::Scheduled => "SCHEDULED",
            Self::Starting => "STARTING",
            Self::Running => "RUNNING",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
            Self::Crashed => "CRASHED",
            Self::Failed => "FAILED",
            Self::Destroying => "DESTROYING",
            Self::Terminated => "TERMINATED",
        }
    }
}

impl fmt::Display for InstanceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
