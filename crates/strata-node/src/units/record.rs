//! What is kept of a unit.

use serde::{Deserialize, Serialize};
use strata_types::pod::{Backoff, PodState};

use super::UnitKind;
use crate::host_path::Pins;

/// What a unit that was not requested to end came to: nothing else on the disk
/// shows whether it exited, or could not be started, or was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FinalState {
    pub(crate) state: PodState,
    pub(crate) reason: String,
}

/// What is kept of a unit.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Record<K: UnitKind> {
    /// Another for each unit, also of the same name.
    pub(crate) id: String,
    pub(crate) spec: K::Spec,
    #[serde(rename = "made")]
    pub(crate) allocated: K::Allocated,
    pub(crate) created_at_ms: i64,
    /// Whether it is to run.
    pub(crate) wanted: bool,
    /// Since when, as runs are numbered: the end of an earlier run implies
    /// nothing about the desired state now.
    #[serde(default)]
    pub(crate) wanted_since_ns: u64,
    /// On its way out: a death in the middle is finished after the restart.
    #[serde(default)]
    pub(crate) destroying: bool,
    /// How often it was restarted since a caller started it.
    #[serde(default)]
    pub(crate) restarts: u32,
    #[serde(default)]
    pub(crate) backoff: Backoff,
    /// Paths of the host that it uses.
    #[serde(default)]
    pub(crate) pins: Pins,
    /// Since it ended or failed by itself, until a caller starts it again.
    #[serde(default, rename = "rest")]
    pub(crate) final_state: Option<FinalState>,
}

impl<K: UnitKind> Clone for Record<K> {
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            spec: self.spec.clone(),
            allocated: self.allocated.clone(),
            pins: self.pins.clone(),
            final_state: self.final_state.clone(),
            ..*self
        }
    }
}

impl<K: UnitKind> Record<K> {
    /// It is not to run any more, for a reason of its own.
    pub(super) fn set_final_state(&mut self, state: PodState, reason: &str) {
        self.wanted = false;
        self.final_state = Some(FinalState {
            state,
            reason: reason.to_owned(),
        });
    }

    pub(super) fn new(
        id: String,
        spec: K::Spec,
        allocated: K::Allocated,
        created_at_ms: i64,
    ) -> Self {
        Self {
            id,
            spec,
            allocated,
            created_at_ms,
            wanted: false,
            wanted_since_ns: 0,
            destroying: false,
            restarts: 0,
            backoff: Backoff::default(),
            pins: Pins::default(),
            final_state: None,
        }
    }
}
