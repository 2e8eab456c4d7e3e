//! What keeps the world as the records say: each task on its own, woken by a
//! timer, with no input but the records, and the same when it is run twice.

mod leadership;
mod liveness;

#[cfg(test)]
mod tests;

pub use leadership::start as start_leadership;
pub use liveness::start as start_liveness;
