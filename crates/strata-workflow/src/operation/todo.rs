//! What is to be done next for an operation: a pure function of its record,
//! so that it does not matter who asks, before or after a crash.

use super::{Operation, State, StepPhase};

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// Begin the next step, or complete.
    Advance,
    /// Do this step.
    Do(usize),
    /// Turn back.
    Unwind,
    /// Undo this step.
    Undo(usize),
    /// Nothing.
    Rest,
}

impl Operation {
    /// What is to be done next.
    pub(crate) fn todo(&self) -> Todo {
        match &self.state {
            State::Active { .. } if self.cancel.is_some() => Todo::Unwind,
            State::Scheduled => Todo::Advance,
            State::Active { .. } => match self.steps.last().map(|step| &step.phase) {
                Some(StepPhase::Running { .. }) => Todo::Do(self.steps.len() - 1),
                _ => Todo::Advance,
            },
            State::Completed { .. } => Todo::Rest,
            State::Failed { .. } if self.given_up.is_some() => Todo::Rest,
            State::Unwinding { .. } | State::Failed { .. } => {
                self.last_not_undone().map_or(Todo::Rest, Todo::Undo)
            }
        }
    }

    /// Steps are undone from the last to the first.
    pub(super) fn last_not_undone(&self) -> Option<usize> {
        self.steps.iter().rposition(|step| !step.is_undone())
    }
}
