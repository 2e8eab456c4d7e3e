//! Placement: rules one by one, and properties over random fleets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fixtures;
mod packing;
mod placement;
mod preemption_and_drain;
mod properties;
mod world;
