//! Operations of the estate, end to end: machines that come and go, the
//! storage pool, backups, and beginning again from a backup alone. Each test
//! has a control plane of its own, as `strata up` makes it, in a network of
//! its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod backups;
mod capacity;
mod connectivity;
mod disaster_recovery;
mod files;
mod hypervisors;
mod images;
mod maas;
mod machine_failures;
mod operation_kills;
mod operation_messages;
mod pool_guarantees;
mod python;
mod qemu;
mod storage;
mod task_panics;
mod vm_limits;
mod world;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
