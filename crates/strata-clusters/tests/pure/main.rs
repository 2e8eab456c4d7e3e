//! What is decided about clusters without touching one, and the simulated driver
//! that operations are tested with.
#![allow(clippy::unwrap_used)]

mod catalogue;
mod choose;
mod labels;
mod remediation;
mod removal;
mod sim;
mod skew;
mod status;
mod world;
