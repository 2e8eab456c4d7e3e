//! Placement: the one task that decides where instances go. It owns the fleet,
//! syncs it with the records, and writes its decisions.
//!
//! The cycle: changes of records mark instances and nodes; the task applies
//! them to the `FleetCache`, plans all waiting instances in one batch
//! (`strata_scheduler::place`, which reserves in the cached fleet), and writes
//! each placement with its evictions as one transaction, conditional on the
//! revisions that were planned with. A write that loses a race is not retried
//! as such: the change that won arrives through the watch, the cache is synced
//! with the record (which releases the reservation), and the instance is
//! planned again. So the cache may be ahead of the store for a moment, and
//! never behind permanently.
//!
//! An instance without a fitting node is `unschedulable`: it is retried when
//! the fleet changes, on the resync interval, or, where every node refused it,
//! after a backoff.

mod backoff;
mod explain;
mod fleet;
mod preemption_wait;
mod task;

pub use task::{PlacementHandle, start};
