//! Images against real registries and hostile ones: pull, unpack, store.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access;
mod borrowed;
mod death;
mod faults;
mod hostile;
mod layers;
mod registry;
mod shares;
mod space;
mod store;
mod support;
mod writers;
