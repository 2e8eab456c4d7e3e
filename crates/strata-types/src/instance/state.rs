//! The state of an instance: one type inside, a table to and from each enum
//! of the wire (in `strata-api`), which number them differently.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum InstanceState {
    /// It has no place yet.
    #[default]
    Scheduling,
    /// It has a place, and the node has not begun.
    Scheduled,
    /// The node makes and starts it.
    Starting,
    /// It runs.
    Running,
    /// It was told to end.
    Stopping,
    /// It ended because it was told to.
    Stopped,
    /// It ended by itself in a bad way.
    Crashed,
    /// It could not be placed, fetched or started.
    Failed,
    /// It is being removed.
    Destroying,
    /// It ended by itself, well; or it is gone.
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

    /// The word, as the REST API has it.
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
