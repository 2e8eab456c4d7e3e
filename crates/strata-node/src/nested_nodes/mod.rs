//! Nested nodes: `strata node` as PID 1 in a cell, with a root,
//! a network and a cgroup subtree of its own, reached over TLS as any other
//! node. Two of them on one host are two nodes.
//!
//! The path of a start: `kind.rs` raises the cell, `root.rs` makes its mounts,
//! the network gives it its interface, `plan.rs` decides what is started in it,
//! `identity.rs` its identity, and `answers.rs` waits until it serves. What is
//! kept and started again is the business of [`crate::units`].

mod answers;
mod files;
mod identity;
mod kind;
mod plan;
mod pool;
mod program;
mod recover;
mod root;
mod spec;
mod subnets;

use crate::units::{Unit, Units};

pub(crate) use kind::{NestedNodeKind, node_url};
pub(crate) use spec::NestedNodeSpec;

/// All machines of a node.
pub(crate) type NestedNodes = Units<NestedNodeKind>;
pub(crate) type NestedNodeRef = std::sync::Arc<Unit<NestedNodeKind>>;

/// What they are kept under, on disk and among the cgroups: no cell can be
/// called so.
const MACHINES: &str = "_machines";
/// The name of a machine's PID 1 in its cell.
const MAIN: &str = "main";
/// The data directory of its node, as it sees it.
const DATA: &str = "/var/lib/strata";
/// Where its node listens.
const PORT: u16 = 7710;

/// The variable that marks a PID 1 as spawned, and names the cgroup hierarchies
/// in which it has a place of its own: their controllers, or [`SPAWNED_V2`].
pub const SPAWNED: &str = "STRATA_SPAWNED";
/// The value of [`SPAWNED`] where there is the one hierarchy of v2.
pub const SPAWNED_V2: &str = "cgroup2";
/// How much memory a spawned machine has at most, in bytes.
pub(crate) const SPAWNED_MEMORY: &str = "STRATA_SPAWNED_MEMORY";
/// How many thousandths of a cpu it has at most.
pub(crate) const SPAWNED_CPU: &str = "STRATA_SPAWNED_CPU_MILLIS";
/// The directory, below the data directory of a spawned node, where the host node
/// it puts its certificate and each new one.
pub const HANDED_IDENTITY: &str = "handed";
