//! Placement: the one task that decides where instances go. It owns the fleet,
//! keeps it true to the records, and writes what it decides.

mod backoff;
mod explain;
mod fleet;
mod room;
mod rules;
mod task;

pub(crate) use rules::rules;
pub use task::{PlacementHandle, start};
