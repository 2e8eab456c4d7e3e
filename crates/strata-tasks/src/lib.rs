//! Supervised tasks (decision 48). A task that panics under a bare
//! `tokio::spawn` is gone without a trace, and the daemon goes on without what
//! the task did: a server without placement answers and places nothing. So every
//! task has a name and a policy, chosen by what its loss would cost:
//!
//! | policy | for | started by |
//! |---|---|---|
//! | restart with back-off | loops that can begin again from their inputs: reconcilers, monitors, renewals | [`TaskGroup::restart`], [`TaskGroup::restart_until_done`] |
//! | end the process | what owns something that cannot be had twice, such as a listener; the service manager starts the daemon again | [`TaskGroup::critical`] |
//! | log | what one caller, connection or operation waits for, and notices by itself | [`TaskGroup::detached`], [`spawn_detached`], [`log_panics`] |
//!
//! ```text
//! Tasks ── one per daemon: figures of each task, the failure that ends the process
//!   └─ TaskGroup ── what components get: a stage of the shutdown, its token
//!        └─ task ── a name, a run after the other until it returns or is stopped
//! ```
//!
//! A task that is restarted is made by a closure, so that each run begins from
//! the inputs and never from what the panic left of the run before. What such a
//! task shares with others has to stay usable after a panic: locks are taken
//! whether or not they are poisoned, and receivers of channels live outside of
//! the run.
//!
//! Shutdown goes by [`Stage`], one after the other, each within a deadline.

#![forbid(unsafe_code)]

mod detached;
mod faults;
mod group;
mod panics;
mod scope;
mod stage;
mod stats;
mod tasks;

pub use detached::{log_panics, spawn_detached, spawn_detached_on};
pub use faults::PANIC_FILE_VARIABLE;
pub use group::TaskGroup;
pub use panics::log_all_panics;
pub use scope::{Scope, within};
pub use stage::Stage;
pub use stats::{OnPanic, TaskStatus};
pub use tasks::{TaskFailure, Tasks};
