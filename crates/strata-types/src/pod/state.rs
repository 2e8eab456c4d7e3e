//! Where a pod is in its life.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a pod is in its life. The diagram stands in the module above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PodState {
    /// Made, and not started yet.
    Created,
    /// On its way up.
    Starting,
    Running,
    Stopping,
    /// Ended because it was told to.
    Stopped,
    /// Ended by itself; it will be started again.
    Waiting,
    /// Ended by itself, and stays so.
    Exited,
    /// Could not be started.
    Failed,
    /// On its way out.
    Destroying,
}

impl PodState {
    /// Every state, for tables and tests.
    pub const ALL: [Self; 9] = [
        Self::Created,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Waiting,
        Self::Exited,
        Self::Failed,
        Self::Destroying,
    ];

    /// Whether a pod may go from this state to `next`.
    pub const fn may_become(self, next: Self) -> bool {
        use PodState::{
            Created, Destroying, Exited, Failed, Running, Starting, Stopped, Stopping, Waiting,
        };
        match (self, next) {
            (Destroying, _) | (_, Created) => false,
            (_, Destroying) => true,
            (Created | Stopped | Waiting | Exited | Failed, Starting) => true,
            (Starting, Running | Failed | Stopping | Waiting) => true,
            (Running, Stopping | Waiting | Exited) => true,
            (Stopping, Stopped) => true,
            (Waiting, Stopping | Stopped) => true,
            _ => false,
        }
    }

    /// Whether a process of the pod may be there.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Stopping)
    }
}

impl fmt::Display for PodState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Waiting => "waiting",
            Self::Exited => "exited",
            Self::Failed => "failed",
            Self::Destroying => "destroying",
        })
    }
}
