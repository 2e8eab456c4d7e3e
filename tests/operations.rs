//! Operations of the estate, end to end: machines that come and go, the
//! storage pool, backups, and beginning again from a backup alone. Each test
//! has a control plane of its own, as `strata up` makes it, in a network of
//! its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod backups;
mod capacity;
mod drill;
mod failures;
mod files;
mod hypervisors;
mod images;
mod kills;
mod pool_promises;
mod python;
mod qemu;
mod reach;
mod storage;
mod told;
mod vm_limits;
mod world;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
