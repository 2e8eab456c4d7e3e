//! The order of a shutdown.

use std::time::Duration;

/// When the tasks of a group are stopped. A stage begins when the one before
/// has ended or its deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What decides and acts by itself: placement, reconcilers, operations,
    /// leadership. First, so that another server takes over while requests
    /// still end here.
    Controllers,
    /// What follows a server and does what it assigns.
    Agent,
    /// Listeners: they accept no more, and requests under way are finished.
    Api,
    /// What the stages before depend on: the tables that follow the store,
    /// events of cells, names and addresses of pods, certificates.
    Services,
}

impl Stage {
    /// All of them, in the order in which they are stopped.
    pub const ORDER: [Self; 4] = [Self::Controllers, Self::Agent, Self::Api, Self::Services];

    /// How long the tasks of a stage have to end. All of them and the
    /// workloads that go along end within the ten seconds that a daemon has.
    pub fn deadline(self) -> Duration {
        Duration::from_secs(match self {
            // A leader gives its lease back, which is one request to the store.
            Self::Controllers => 1,
            Self::Agent => 1,
            // Of requests under way.
            Self::Api => 4,
            Self::Services => 1,
        })
    }
}
