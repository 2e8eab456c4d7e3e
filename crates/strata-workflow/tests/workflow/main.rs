//! Operations on a store in memory, with a fake world for their steps.
#![allow(clippy::unwrap_used)]

mod crash_trials;
mod lifecycle;
mod process_kill;
mod random_operations;
mod recovery;
mod restored_export;
mod retention;
mod store_faults;
mod support;
