//! The node daemon: cells, pods and their logs behind `runtime.*`, `observe.*` and
//! `strata.v1`, and the recovery of all of it after a restart.
//!
//! The faces are thin: parse, call [`Cells`], map the answer. Nothing here is
//! the parent of a workload, so the end of this process ends none.

mod agent;
mod blocking;
mod cells;
mod clock;
pub mod daemon_log;
mod faces;
mod folder;
mod host_path;
pub mod images;
mod logs;
mod machines;
mod network;
mod node;
mod parts;
mod pods;
mod pool;
mod secrets;
mod units;
mod vms;
mod volumes;

pub use agent::{Agent, AgentConfig, KeptRevocations, KeptTrust, named_servers};
pub use cells::Cells;
pub use folder::NodeFolder;
pub use machines::{HANDED_IDENTITY, SPAWNED, SPAWNED_V2};
pub use network::{NetworkOptions, OverlayEncryption, remove_network};
pub use node::{Node, NodeConfig};
pub use strata_network::Subnet;
