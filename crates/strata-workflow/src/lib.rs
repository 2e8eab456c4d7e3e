//! Long actions that survive the program that runs them.
//!
//! An *operation* is recorded before it starts. It has named steps; each has
//! its undo beside it. When a step fails, or a caller cancels, what was done is
//! undone from the last step to the first. After a crash at any point the
//! operation goes on where its record says: nothing is lost and nothing leaks.
//! A viewer of an operation only reads its record, so there can be any number
//! of them, and none of them holds it up.
//!
//! This crate knows no noun of the product. Code with long work implements
//! [`Kind`] and registers it with what its steps work with; [`Operations`]
//! submits, shows, watches and cancels; a [`Workflow`] runs them, in the one
//! program that leads.
//!
//! ```text
//! kind, step, registry        what is to be done, and with what
//! operation/                  the record, its transitions, what is next
//! operations, submit,         what any caller may do
//!   snapshots, filter
//! queue, claim                which may run: pure policy
//! journal, records            how records are written: compare-and-set
//! engine/                     the dispatcher, and one task per operation
//! retention                   what is removed
//! testing/                    the tests that every kind has to pass
//! ```
#![forbid(unsafe_code)]

mod claim;
mod clock;
mod engine;
mod error;
mod filter;
mod id;
mod journal;
mod kind;
mod log;
mod operation;
mod operations;
mod outputs;
mod parking;
mod queue;
mod records;
mod registry;
mod retention;
mod snapshots;
mod step;
mod step_context;
mod step_error;
mod submit;
pub mod testing;

pub use claim::{Claim, Mode};
pub use clock::Clock;
pub use engine::{End, Settings, Status, Workflow};
pub use error::WorkflowError;
pub use filter::Filter;
pub use id::{BadOperationId, OperationId};
pub use kind::Kind;
pub use log::LogLine;
pub use operation::{Leftover, Operation, Reason, Request, State, StepPhase, StepRecord};
pub use operations::Operations;
pub use outputs::Outputs;
pub use registry::Registry;
pub use retention::Retention;
pub use snapshots::Snapshots;
pub use step::{Retry, Step};
pub use step_context::{Progress, StepContext};
pub use step_error::StepError;
