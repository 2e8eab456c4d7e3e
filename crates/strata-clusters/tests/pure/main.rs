//! What is decided about clusters without touching one, and the played driver
//! that operations are tested with.
#![allow(clippy::unwrap_used)]

mod catalogue;
mod choose;
mod heal;
mod labels;
mod sim;
mod skew;
mod status;
mod victims;
mod world;
