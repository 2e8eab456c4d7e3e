//! What is known of a unit now.

use std::sync::Arc;

use strata_types::pod::PodState;

use crate::cells::Executable;

/// Whether a unit works, where there is a health check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    #[default]
    Unknown,
    /// Not checked often enough yet.
    Starting,
    Healthy,
    Unhealthy,
}

/// What is known of a unit now.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) state: PodState,
    /// The reason, as a message, where there is one.
    pub(crate) reason: String,
    /// Its main process, or the last one it had.
    pub(crate) main: Option<Arc<Executable>>,
    pub(crate) health: Health,
    /// When it is started next, while it waits.
    pub(crate) next_start_at_ms: i64,
}

impl View {
    pub(super) fn new(state: PodState, main: Option<Arc<Executable>>) -> Self {
        Self {
            state,
            reason: String::new(),
            main,
            health: Health::default(),
            next_start_at_ms: 0,
        }
    }

    /// Whether it has ended and nothing will start it again.
    pub(crate) fn is_over(&self) -> bool {
        use PodState::{Created, Destroying, Exited, Failed, Stopped};
        matches!(self.state, Created | Destroying | Exited | Failed | Stopped)
    }
}
