//! Operations of the estate, end to end: machines that come and go, the
//! storage pool, backups, and beginning again from a backup alone. Each test
//! has a control plane of its own, as `strata up` makes it, in a network of
//! its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "operations/backups.rs"]
mod backups;
#[path = "operations/drill.rs"]
mod drill;
#[path = "operations/failures.rs"]
mod failures;
#[path = "operations/files.rs"]
mod files;
#[path = "operations/hypervisors.rs"]
mod hypervisors;
#[path = "operations/kills.rs"]
mod kills;
#[path = "operations/python.rs"]
mod python;
#[path = "operations/storage.rs"]
mod storage;
#[path = "operations/told.rs"]
mod told;
#[path = "operations/world.rs"]
mod world;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
