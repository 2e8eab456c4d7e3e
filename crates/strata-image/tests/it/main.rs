//! Images against real registries and hostile ones: pull, unpack, store.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod faults;
mod hostile;
mod layers;
mod pull_crash;
mod registry;
mod shared_layers;
mod shares;
mod space;
mod store;
mod support;
mod tar_writers;
