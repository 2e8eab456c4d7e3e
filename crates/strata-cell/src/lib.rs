//! Cells: a cgroup and namespaces with a tiny init inside, the executables
//! in them, and their logs. Mechanism only: what is allowed when, and what
//! is kept across a restart, is decided by the node.
//!
//! Most of the workspace's `unsafe` code is here: the init and the jail
//! (`init/`, `jail/`, which have no library at all under them) and the one
//! process the daemon starts itself, the shim.
//!
//! Everything here blocks for microseconds to a few milliseconds; callers on
//! an async runtime hand it to a blocking thread.

mod cgroup;
mod confine;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod host;
mod init;
mod jail;
mod launch;
mod link;
pub mod log;
mod readable;
mod record;
pub mod seccomp;
mod setup_root;
mod status;
// Compiled into the init too, where all of it is used and nothing is exported.
#[allow(dead_code, unreachable_pub)]
mod wire;

pub use cgroup::{Cgroup, CgroupError, Cgroups, RunGroup, Usage};
pub use confine::Confinement;
pub use host::HostPaths;
pub use init::{CellInit, InitError, InitImage, Lease, LeaseFile, StartedInit};
pub use jail::{
    JAIL, JAIL_FIRST_FD, JAIL_LOG_FD, JAIL_MAX_FDS, hand_over, jailed, landlock_version,
};
pub use launch::{Launch, LogLimits, Stdio};
pub use link::{InitEvent, InitEvents, LinkError};
pub use readable::{both_ways, readable};
pub use record::{create_record, read_record};
pub use setup_root::MountOp;
pub use status::{ExitVerdict, RunRecord, RunState};
