//! What is kept of a unit.

use serde::{Deserialize, Serialize};
use strata_types::pod::{Backoff, PodState};

use super::Kind;
use crate::host_path::Pins;

/// What a unit that was not told to end came to: nothing else on the disk
/// tells whether it exited, or could not be started, or was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rest {
    pub(crate) state: PodState,
    pub(crate) reason: String,
}

/// What is kept of a unit.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Record<K: Kind> {
    /// Another for each unit, also of the same name.
    pub(crate) id: String,
    pub(crate) spec: K::Spec,
    pub(crate) made: K::Made,
    pub(crate) created_at_ms: i64,
    /// Whether it is to run.
    pub(crate) wanted: bool,
    /// Since when, as runs are numbered: the end of an earlier run says
    /// nothing about what is wanted now.
    #[serde(default)]
    pub(crate) wanted_since_ns: u64,
    /// On its way out: a death in the middle is finished after the restart.
    #[serde(default)]
    pub(crate) destroying: bool,
    /// How often it was started again since somebody started it.
    #[serde(default)]
    pub(crate) restarts: u32,
    #[serde(default)]
    pub(crate) backoff: Backoff,
    /// Paths of the host that it uses.
    #[serde(default)]
    pub(crate) pins: Pins,
    /// Since it ended or failed by itself, until somebody starts it again.
    #[serde(default)]
    pub(crate) rest: Option<Rest>,
}

impl<K: Kind> Clone for Record<K> {
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            spec: self.spec.clone(),
            made: self.made.clone(),
            pins: self.pins.clone(),
            rest: self.rest.clone(),
            ..*self
        }
    }
}

impl<K: Kind> Record<K> {
    /// It is not to run any more, for a reason of its own.
    pub(super) fn come_to_rest(&mut self, state: PodState, reason: &str) {
        self.wanted = false;
        self.rest = Some(Rest {
            state,
            reason: reason.to_owned(),
        });
    }

    pub(super) fn new(id: String, spec: K::Spec, made: K::Made, created_at_ms: i64) -> Self {
        Self {
            id,
            spec,
            made,
            created_at_ms,
            wanted: false,
            wanted_since_ns: 0,
            destroying: false,
            restarts: 0,
            backoff: Backoff::default(),
            pins: Pins::default(),
            rest: None,
        }
    }
}
