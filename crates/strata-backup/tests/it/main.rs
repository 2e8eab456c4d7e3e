//! Backups against real repositories: what is saved, what comes back, and what
//! is left when things go wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod damaged_files;
mod death;
mod deep;
mod s3;
mod save_and_restore;
mod trouble;
