//! The record of one step.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Progress;

/// A step that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    pub name: String,
    /// When it began, in milliseconds since 1970.
    pub began_ms: i64,
    /// How far it is.
    pub phase: StepPhase,
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum StepPhase {
    /// It is being done.
    Running {
        /// Which attempt this is; the first is 1.
        attempt: u32,
        /// What it reported last.
        progress: Option<Progress>,
    },
    Done {
        /// Unix milliseconds of the event.
        at_ms: i64,
        output: Value,
    },
    /// It is being undone.
    Undoing {
        /// Which attempt this is; the first is 1.
        attempt: u32,
        /// What it reported last.
        progress: Option<Progress>,
        /// What it answered, if it was done.
        output: Option<Value>,
    },
    /// Nothing is left of it.
    Undone {
        /// Unix milliseconds of the event.
        at_ms: i64,
    },
    /// It could not be undone.
    Stuck {
        error: String,
        /// What it answered, if it was done.
        output: Option<Value>,
    },
}

impl StepRecord {
    pub(super) fn begun(name: String, now_ms: i64) -> Self {
        let phase = StepPhase::Running {
            attempt: 1,
            progress: None,
        };
        Self {
            name,
            began_ms: now_ms,
            phase,
        }
    }

    /// What it reported last about how far it is.
    pub fn progress(&self) -> Option<&Progress> {
        match &self.phase {
            StepPhase::Running { progress, .. } | StepPhase::Undoing { progress, .. } => {
                progress.as_ref()
            }
            StepPhase::Done { .. } | StepPhase::Undone { .. } | StepPhase::Stuck { .. } => None,
        }
    }

    /// What it answered, unless that was undone.
    pub fn output(&self) -> Option<&Value> {
        match &self.phase {
            StepPhase::Done { output, .. } => Some(output),
            StepPhase::Undoing { output, .. } | StepPhase::Stuck { output, .. } => output.as_ref(),
            StepPhase::Running { .. } | StepPhase::Undone { .. } => None,
        }
    }

    /// Whether nothing is left of it.
    pub fn is_undone(&self) -> bool {
        matches!(self.phase, StepPhase::Undone { .. })
    }

    /// Why it could not be undone.
    pub fn stuck(&self) -> Option<&str> {
        match &self.phase {
            StepPhase::Stuck { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether it is being done or undone.
    pub fn is_under_way(&self) -> bool {
        matches!(
            self.phase,
            StepPhase::Running { .. } | StepPhase::Undoing { .. }
        )
    }

    /// Begins its undo. What it answered is kept for that.
    pub(super) fn begin_undo(&mut self) {
        self.phase = StepPhase::Undoing {
            attempt: 1,
            progress: None,
            output: self.output().cloned(),
        };
    }

    pub(super) fn note_attempt(&mut self, now: u32) {
        if let StepPhase::Running { attempt, .. } | StepPhase::Undoing { attempt, .. } =
            &mut self.phase
        {
            *attempt = now;
        }
    }

    pub(super) fn note_progress(&mut self, now: Progress) {
        if let StepPhase::Running { progress, .. } | StepPhase::Undoing { progress, .. } =
            &mut self.phase
        {
            *progress = Some(now);
        }
    }
}
