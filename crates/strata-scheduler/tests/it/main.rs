//! Placement: rules one by one, and properties over random fleets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod behaviour;
mod moving;
mod packing;
mod properties;
mod small;
mod world;
