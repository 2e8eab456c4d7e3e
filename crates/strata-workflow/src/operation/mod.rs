//! The record of an operation: what it is to do, and how far it is.
//!
//! ```text
//!               cancelled before it began
//!            ┌──────────────────────────────────────────┐
//!            │                                          ▼
//!  Scheduled ───► Active ───► Completed              Failed ◄─┐
//!                   │                                 ▲   │   │ what was left
//!                   └───► Unwinding ──────────────────┘   └───┘ is undone later
//!            a step failed,        all undone, or an undo
//!            or cancelled          failed permanently
//! ```
//!
//! Completed and Failed are final for a caller that waits. A failed operation
//! may have left something behind: a step whose undo failed, and all before it,
//! which are not undone out of order. It keeps its claims then, so that no
//! other operation builds on the rest, and is cleaned up later or abandoned by
//! a person.
//!
//! How the state changes is in `transitions.rs`, what is to be done next in
//! `next_action.rs`. Both are pure.

mod next_action;
mod request;
mod step;
mod transitions;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub(crate) use next_action::NextAction;
pub use request::Request;
pub use step::{StepPhase, StepRecord};
pub(crate) use transitions::{Lines, NextStep};

use crate::{Claim, OperationId, Outputs};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub id: OperationId,
    /// What kind of action it is.
    pub kind: String,
    /// The principal that submitted it.
    pub owner: String,
    /// What it is to do.
    pub input: Value,
    /// What it must have to itself.
    pub claims: Vec<Claim>,
    /// When it was submitted, in milliseconds since 1970.
    pub created_ms: i64,
    /// Where it stands.
    pub state: State,
    /// The steps that have begun, in order.
    pub steps: Vec<StepRecord>,
    /// A caller requested the cancellation.
    pub cancel: Option<Request>,
    /// A person has taken over cleaning up what it left.
    #[serde(rename = "given_up")]
    pub abandoned: Option<Request>,
    #[serde(rename = "book")]
    pub(crate) bookkeeping: Bookkeeping,
    /// Fields of a later release, which stay in the record.
    #[serde(flatten)]
    pub(crate) other: BTreeMap<String, Value>,
}

/// Where an operation stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    /// It waits its turn. Nothing was done.
    Scheduled,
    /// Its steps are being done.
    Active {
        /// Unix milliseconds since when it holds.
        since_ms: i64,
    },
    Completed {
        /// Unix milliseconds of the event.
        at_ms: i64,
    },
    /// What was done is being undone.
    Unwinding {
        /// The reason, for people.
        reason: Reason,
        /// Unix milliseconds since when it holds.
        since_ms: i64,
    },
    /// It came to nothing.
    Failed {
        /// The reason, for people.
        reason: Reason,
        /// Unix milliseconds of the event.
        at_ms: i64,
    },
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Reason {
    /// A caller cancelled it.
    Cancelled {
        /// The caller who requested it.
        by: String,
    },
    Step {
        /// Name of the step.
        step: String,
        message: String,
    },
    /// The steps could not be sent.
    Plan { message: String },
}

impl Reason {
    /// Whether a caller cancelled it.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled { .. } => f.write_str("cancelled"),
            Self::Step { step, message } => write!(f, "{step}: {message}"),
            Self::Plan { message } => write!(f, "cannot plan the steps: {message}"),
        }
    }
}

/// What is left of a step that could not be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub step: String,
    /// Why, if its own undo failed. Otherwise it waits for a later step's.
    pub error: Option<String>,
}

/// What the engine notes for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bookkeeping {
    /// The engine that wrote last, and which of its writes it was.
    pub(crate) writer: Option<Uuid>,
    pub(crate) write: u64,
    /// The number of the next line of the log.
    pub(crate) next_line: u64,
    /// How often a caller requested another try at cleaning up.
    pub(crate) cleanups: u64,
    pub(crate) key: Option<String>,
}

impl Operation {
    /// Whether it is completed or failed.
    pub fn has_ended(&self) -> bool {
        self.ended_ms().is_some()
    }

    /// When it ended.
    pub fn ended_ms(&self) -> Option<i64> {
        match self.state {
            State::Completed { at_ms } | State::Failed { at_ms, .. } => Some(at_ms),
            State::Scheduled | State::Active { .. } | State::Unwinding { .. } => None,
        }
    }

    /// Why it failed or is about to.
    pub fn reason(&self) -> Option<&Reason> {
        match &self.state {
            State::Unwinding { reason, .. } | State::Failed { reason, .. } => Some(reason),
            State::Scheduled | State::Active { .. } | State::Completed { .. } => None,
        }
    }

    /// What a failed operation could not undo and no caller abandoned, latest
    /// first.
    pub fn leftovers(&self) -> Vec<Leftover> {
        if !matches!(self.state, State::Failed { .. }) || self.abandoned.is_some() {
            return Vec::new();
        }
        let left = self.steps.iter().rev().filter(|step| !step.is_undone());
        left.map(|step| Leftover {
            step: step.name.clone(),
            error: step.stuck().map(str::to_owned),
        })
        .collect()
    }

    /// Whether it holds its claims.
    pub fn holds_claims(&self) -> bool {
        match self.state {
            State::Scheduled | State::Completed { .. } => false,
            State::Active { .. } | State::Unwinding { .. } => true,
            State::Failed { .. } => !self.leftovers().is_empty(),
        }
    }

    /// The step that is being done or undone.
    pub fn current_step(&self) -> Option<&StepRecord> {
        self.steps.iter().rev().find(|step| step.is_under_way())
    }

    /// What the steps that are done and not undone have answered.
    pub(crate) fn outputs(&self) -> Outputs {
        let mut outputs = Outputs::default();
        for step in &self.steps {
            if let Some(output) = step.output() {
                outputs.insert(&step.name, output.clone());
            }
        }
        outputs
    }
}
