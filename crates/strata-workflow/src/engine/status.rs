//! What an engine reports about itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::OperationId;

/// What an engine does, and what it cannot do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// How many operations run.
    pub running: usize,
    /// How many wait their turn.
    pub waiting: usize,
    /// Operations of kinds that this program does not know, with the kind.
    /// They are kept as they are.
    pub unknown: BTreeMap<OperationId, String>,
    /// Failed operations that have left something behind.
    pub leftovers: BTreeSet<OperationId>,
    /// Operations that cannot go on before the engine is opened again, with
    /// the reason. They keep their claims.
    pub parked: BTreeMap<OperationId, String>,
    /// Keys of records that cannot be read. They are kept as they are.
    pub unreadable: BTreeSet<String>,
}

/// Why an engine has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was sent to.
    Shutdown,
    /// Its fence does not hold any more, or another engine writes.
    Deposed,
    /// It panicked: it is a bug.
    Crashed,
}
