//! What keeps the world as the records say: each task on its own, woken by a
//! timer, with no input but the records, and the same when it is run twice.

mod clusters;
mod endpoints;
mod leadership;
mod liveness;
mod machines;
mod powered_off;
mod published_nodes;
mod schedules;

#[cfg(test)]
mod tests;

pub use clusters::{look as look_at_clusters, start as start_clusters};
pub use endpoints::start as start_endpoints;
pub use leadership::start as start_leadership;
pub(crate) use liveness::move_all_off;
pub use liveness::start as start_liveness;
pub(crate) use machines::busy;
pub use machines::{add_configured, look as look_at_machines, start as start_machines};
pub use powered_off::{look as look_at_power, start as start_powered_off};
pub use schedules::{look as look_at_schedules, start as start_schedules};
