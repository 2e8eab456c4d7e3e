//! How an engine works.

use std::time::Duration;

use strata_store::Condition;

use crate::Retention;

/// How an engine works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many operations run at once.
    pub at_once: usize,
    /// Holds while this program leads; part of every write of the engine.
    /// `None` where there is only one engine.
    pub fence: Option<Condition>,
    /// How often what failed operations left is tried again.
    pub cleanup_every: Duration,
    /// How often the progress of one step is written at most.
    pub progress_every: Duration,
    /// How long ended operations are remembered.
    pub retention: Retention,
    /// How often it is checked whether any are to be removed.
    pub forget_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            at_once: 16,
            fence: None,
            cleanup_every: Duration::from_secs(60),
            progress_every: Duration::from_millis(250),
            retention: Retention::default(),
            forget_every: Duration::from_secs(600),
        }
    }
}
