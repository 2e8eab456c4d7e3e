//! The record of an operation: what it is asked, and how far it is.
//!
//! ```text
//!               cancelled before it began
//!            ┌──────────────────────────────────────────┐
//!            │                                          ▼
//!  Scheduled ───► Active ───► Completed              Failed ◄─┐
//!                   │                                 ▲   │   │ what was left
//!                   └───► Unwinding ──────────────────┘   └───┘ is undone later
//!            a step failed,        all undone, or an undo
//!            or cancelled          failed for good
//! ```
//!
//! Completed and Failed are final for whoever waits. A failed operation may
//! have left something behind: a step whose undo failed, and all before it,
//! which are not undone out of order. It keeps its claims then, so that nobody
//! builds on the rubble, and is cleaned up later or given up by a person.
//!
//! How the state changes is in `transitions.rs`, what is to be done next in
//! `todo.rs`. Both are pure.

mod request;
mod step;
mod todo;
mod transitions;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use request::Request;
pub use step::{StepPhase, StepRecord};
pub(crate) use todo::Todo;
pub(crate) use transitions::{Afterwards, Lines};

use crate::{Claim, OperationId, Outputs};

/// One long action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name.
    pub id: OperationId,
    /// What kind of action it is.
    pub kind: String,
    /// Who asked for it.
    pub owner: String,
    /// What was asked.
    pub input: Value,
    /// What it must have to itself.
    pub claims: Vec<Claim>,
    /// When it was asked for, in milliseconds since 1970.
    pub created_ms: i64,
    /// Where it stands.
    pub state: State,
    /// The steps that have begun, in order.
    pub steps: Vec<StepRecord>,
    /// Somebody wants it cancelled.
    pub cancel: Option<Request>,
    /// Somebody took it on themselves to clean up what it left.
    pub given_up: Option<Request>,
    pub(crate) book: Book,
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
        /// Since when.
        since_ms: i64,
    },
    /// All was done.
    Completed {
        /// When.
        at_ms: i64,
    },
    /// What was done is being undone.
    Unwinding {
        /// Why.
        reason: Reason,
        /// Since when.
        since_ms: i64,
    },
    /// It came to nothing.
    Failed {
        /// Why.
        reason: Reason,
        /// When.
        at_ms: i64,
    },
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Reason {
    /// Somebody wanted it so.
    Cancelled {
        /// Who.
        by: String,
    },
    /// A step failed.
    Step {
        /// Which.
        step: String,
        /// What went wrong.
        message: String,
    },
    /// The steps could not be told.
    Plan {
        /// What went wrong.
        message: String,
    },
}

impl Reason {
    /// Whether somebody wanted it so.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled { .. } => f.write_str("cancelled"),
            Self::Step { step, message } => write!(f, "{step}: {message}"),
            Self::Plan { message } => write!(f, "cannot tell the steps: {message}"),
        }
    }
}

/// What is left of a step that could not be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The step.
    pub step: String,
    /// Why, if its own undo failed. Otherwise it waits for a later step's.
    pub error: Option<String>,
}

/// What the engine notes for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Book {
    /// The engine that wrote last, and which of its writes it was.
    pub(crate) writer: Option<Uuid>,
    pub(crate) write: u64,
    /// The number of the next line of the log.
    pub(crate) next_line: u64,
    /// How often somebody asked for another try at cleaning up.
    pub(crate) cleanups: u64,
    /// The idempotency key.
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

    /// What a failed operation could not undo and nobody gave up, latest
    /// first.
    pub fn leftovers(&self) -> Vec<Leftover> {
        if !matches!(self.state, State::Failed { .. }) || self.given_up.is_some() {
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
