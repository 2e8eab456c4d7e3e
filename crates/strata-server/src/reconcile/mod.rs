//! Reconcilers: tasks that bring the world to the state of the records. Each is
//! woken by a timer, has no input but the records, and is idempotent.

mod clusters;
mod endpoints;
mod leadership;
mod liveness;
mod machine_sizes;
mod machines;
mod move_budget;
mod powered_off;
mod published_nodes;
mod schedules;

#[cfg(test)]
mod loss_tests;
#[cfg(test)]
mod tests;

pub use clusters::{reconcile as look_at_clusters, start as start_clusters};
pub use endpoints::start as start_endpoints;
pub use leadership::start as start_leadership;
pub use liveness::start as start_liveness;
pub use machines::{add_configured, reconcile as look_at_machines, start as start_machines};
pub use powered_off::{reconcile as look_at_power, start as start_powered_off};
pub use schedules::{reconcile as look_at_schedules, start as start_schedules};
