//! Machines inside the machine: `strata node` as PID 1 in a cell, with a root,
//! a network and a cgroup subtree of its own, reached over TLS as any other
//! node. Two of them on one host are two nodes.
//!
//! The path of a start: `kind.rs` raises the cell, `root.rs` makes its mounts,
//! the network gives it its interface, `plan.rs` says what is started in it,
//! `identity.rs` who it is, and `answers.rs` waits until it serves. What is
//! kept and started again is the business of [`crate::units`].

mod answers;
mod ask;
mod files;
mod identity;
mod kind;
mod plan;
mod pool;
mod program;
mod recover;
mod root;
mod subnets;

use crate::units::{Unit, Units};

pub(crate) use ask::MachineAsk;
pub(crate) use kind::{MachineKind, node_url};

/// All machines of a node.
pub(crate) type Machines = Units<MachineKind>;
/// One machine, shared.
pub(crate) type MachineRef = std::sync::Arc<Unit<MachineKind>>;

/// What they are kept under, on disk and among the cgroups: no cell can be
/// called so.
const MACHINES: &str = "_machines";
/// The name of a machine's PID 1 in its cell.
const MAIN: &str = "main";
/// The data directory of its node, as it sees it.
const DATA: &str = "/var/lib/strata";
/// Where its node listens.
const PORT: u16 = 7710;

/// The variable that tells a PID 1 that it was spawned, and in which cgroup
/// hierarchies it has a place of its own: their controllers, or [`SPAWNED_V2`].
pub const SPAWNED: &str = "STRATA_SPAWNED";
/// What [`SPAWNED`] says where there is the one hierarchy of v2.
pub const SPAWNED_V2: &str = "cgroup2";
/// How much memory a spawned machine has at most, in bytes.
pub(crate) const SPAWNED_MEMORY: &str = "STRATA_SPAWNED_MEMORY";
/// How many thousandths of a cpu it has at most.
pub(crate) const SPAWNED_CPU: &str = "STRATA_SPAWNED_CPU_MILLIS";
/// The folder, below the data folder of a spawned node, where the node around
/// it puts its certificate and each new one.
pub const HANDED_IDENTITY: &str = "handed";
