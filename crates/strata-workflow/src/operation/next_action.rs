//! What is to be done next for an operation: a pure function of its record, so
//! that the answer is the same for every caller, before or after a crash.

use super::{Operation, State, StepPhase};

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextAction {
    /// Begin the next step, or complete.
    Advance,
    Do(usize),
    Unwind,
    Undo(usize),
    Rest,
}

impl Operation {
    /// What is to be done next.
    pub(crate) fn next_action(&self) -> NextAction {
        match &self.state {
            State::Active { .. } if self.cancel.is_some() => NextAction::Unwind,
            State::Scheduled => NextAction::Advance,
            State::Active { .. } => match self.steps.last().map(|step| &step.phase) {
                Some(StepPhase::Running { .. }) => NextAction::Do(self.steps.len() - 1),
                _ => NextAction::Advance,
            },
            State::Completed { .. } => NextAction::Rest,
            State::Failed { .. } if self.abandoned.is_some() => NextAction::Rest,
            State::Unwinding { .. } | State::Failed { .. } => self
                .last_not_undone()
                .map_or(NextAction::Rest, NextAction::Undo),
        }
    }

    /// Steps are undone from the last to the first.
    pub(super) fn last_not_undone(&self) -> Option<usize> {
        self.steps.iter().rposition(|step| !step.is_undone())
    }
}
