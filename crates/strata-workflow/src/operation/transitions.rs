//! Every way in which the record of an operation changes.
//!
//! A transition that the record does not admit any more, because another writer
//! changed it meanwhile, does nothing and returns `None`. One that happens
//! returns what to write into the log.

use serde_json::Value;

use super::{Operation, Reason, Request, State, StepPhase, StepRecord};
use crate::Progress;
use crate::log::Line;

/// The log lines of a transition; `None` if it did not happen.
pub(crate) type Lines = Option<Vec<Line>>;

/// What comes after a step that is done.
#[derive(Clone, Debug)]
pub(crate) enum NextStep {
    Begin(String),
    /// Nothing: all is done.
    Complete,
    /// It cannot go on.
    Unwind(Reason),
}

impl Operation {
    /// Becomes active, or goes on, with what comes next.
    pub(crate) fn advance(&mut self, next_step: NextStep, now_ms: i64) -> Lines {
        match self.state {
            State::Scheduled => self.state = State::Active { since_ms: now_ms },
            State::Active { .. } if self.current_step().is_none() => {}
            _ => return None,
        }
        Some(self.continue_with(next_step, now_ms))
    }

    /// A step is done; what comes after is in the same write.
    pub(crate) fn done(
        &mut self,
        step: usize,
        output: Value,
        next_step: NextStep,
        now_ms: i64,
    ) -> Lines {
        let State::Active { .. } = self.state else {
            return None;
        };
        let record = self.steps.get_mut(step)?;
        let StepPhase::Running { .. } = record.phase else {
            return None;
        };
        record.phase = StepPhase::Done {
            at_ms: now_ms,
            output,
        };
        let mut lines = vec![Line::of(&record.name, "done")];
        lines.extend(self.continue_with(next_step, now_ms));
        Some(lines)
    }

    fn continue_with(&mut self, next_step: NextStep, now_ms: i64) -> Vec<Line> {
        if let Some(cancel) = &self.cancel {
            let by = cancel.by.clone();
            return self.start_unwind(Reason::Cancelled { by }, now_ms);
        }
        match next_step {
            NextStep::Begin(name) => {
                let line = Line::of(&name, "begins");
                self.steps.push(StepRecord::begun(name, now_ms));
                vec![line]
            }
            NextStep::Complete => {
                self.state = State::Completed { at_ms: now_ms };
                vec![Line::new("completed")]
            }
            NextStep::Unwind(reason) => self.start_unwind(reason, now_ms),
        }
    }

    /// Unwinds. If a caller requested the cancellation, that is the reason.
    pub(crate) fn unwind(&mut self, reason: Reason, now_ms: i64) -> Lines {
        let State::Active { .. } = self.state else {
            return None;
        };
        let cancelled = |by: &Request| Reason::Cancelled { by: by.by.clone() };
        let reason = self.cancel.as_ref().map_or(reason, cancelled);
        Some(self.start_unwind(reason, now_ms))
    }

    fn start_unwind(&mut self, reason: Reason, now_ms: i64) -> Vec<Line> {
        let mut lines = vec![Line::new(format!("rolling back: {reason}"))];
        self.state = State::Unwinding {
            reason,
            since_ms: now_ms,
        };
        lines.extend(self.undo_next(now_ms));
        lines
    }

    /// Begins the next undo, or fails because all is undone.
    fn undo_next(&mut self, now_ms: i64) -> Vec<Line> {
        if let Some(step) = self.last_not_undone() {
            let record = &mut self.steps[step];
            record.begin_undo();
            return vec![Line::of(&record.name, "undoing")];
        }
        match &self.state {
            State::Unwinding { reason, .. } => {
                let line = Line::new(format!("failed: {reason}"));
                self.state = State::Failed {
                    reason: reason.clone(),
                    at_ms: now_ms,
                };
                vec![line]
            }
            _ => vec![Line::new("no leftovers remain")],
        }
    }

    /// A step is undone; the undo of the one before begins in the same write.
    pub(crate) fn undone(&mut self, step: usize, now_ms: i64) -> Lines {
        if self.next_action() != super::NextAction::Undo(step) {
            return None;
        }
        let record = &mut self.steps[step];
        record.phase = StepPhase::Undone { at_ms: now_ms };
        let mut lines = vec![Line::of(&record.name, "undone")];
        lines.extend(self.undo_next(now_ms));
        Some(lines)
    }

    /// A step cannot be undone: the operation has failed, with leftovers.
    pub(crate) fn stuck(&mut self, step: usize, error: String, now_ms: i64) -> Lines {
        if self.next_action() != super::NextAction::Undo(step) {
            return None;
        }
        let record = &mut self.steps[step];
        let mut lines = vec![Line::of(&record.name, format!("cannot be undone: {error}"))];
        let output = record.output().cloned();
        record.phase = StepPhase::Stuck { error, output };
        if let State::Unwinding { reason, .. } = &self.state {
            lines.push(Line::new(format!("failed, with leftovers: {reason}")));
            self.state = State::Failed {
                reason: reason.clone(),
                at_ms: now_ms,
            };
        }
        Some(lines)
    }

    /// Takes up the undo of a step that is not under way: the first of a
    /// cleanup.
    pub(crate) fn begin_undo_of(&mut self, step: usize) -> Lines {
        let record = self.steps.get_mut(step)?;
        if matches!(record.phase, StepPhase::Undoing { .. }) {
            return None;
        }
        record.begin_undo();
        Some(vec![Line::of(&record.name, "undoing")])
    }

    /// An attempt failed, and there is another.
    pub(crate) fn note_retry(&mut self, step: usize, attempt: u32, error: &str) -> Lines {
        let record = self.steps.get_mut(step).filter(|it| it.is_under_way())?;
        record.note_attempt(attempt);
        let text = format!("{error}; attempt {attempt} follows");
        Some(vec![Line::of(&record.name, text)])
    }

    /// A step reports how far it is. Only a new text is worth a line.
    pub(crate) fn progress(&mut self, step: usize, progress: Progress) -> Lines {
        let record = self.steps.get_mut(step).filter(|it| it.is_under_way())?;
        let known = record.progress().map(|known| &known.text);
        let line = (known != Some(&progress.text)).then(|| Line::of(&record.name, &*progress.text));
        record.note_progress(progress);
        Some(line.into_iter().collect())
    }

    /// A caller requests the cancellation. What has not begun ends at once.
    pub(crate) fn request_cancel(&mut self, by: &str, now_ms: i64) -> Lines {
        if self.cancel.is_some() && self.reason().is_none_or(Reason::is_cancelled) {
            // Requested twice, or requested again because the answer got lost.
            return Some(Vec::new());
        }
        if self.has_ended() {
            return None;
        }
        self.cancel = Some(Request {
            by: by.into(),
            at_ms: now_ms,
        });
        let mut lines = vec![Line::new(format!("cancelled by {by}"))];
        if self.state == State::Scheduled {
            let reason = Reason::Cancelled { by: by.into() };
            lines.push(Line::new(format!("failed: {reason}")));
            self.state = State::Failed {
                reason,
                at_ms: now_ms,
            };
        }
        Some(lines)
    }

    /// A caller requests another try at what is left, now.
    pub(crate) fn request_cleanup(&mut self) -> Lines {
        if self.leftovers().is_empty() {
            return None;
        }
        self.bookkeeping.cleanups += 1;
        Some(Vec::new())
    }

    /// A person takes over cleaning up what is left.
    pub(crate) fn abandon(&mut self, by: &str, now_ms: i64) -> Lines {
        if self.abandoned.is_some() {
            return Some(Vec::new());
        }
        if self.leftovers().is_empty() {
            return None;
        }
        self.abandoned = Some(Request {
            by: by.into(),
            at_ms: now_ms,
        });
        Some(vec![Line::new(format!("leftovers abandoned by {by}"))])
    }
}
