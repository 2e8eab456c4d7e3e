//! The node daemon: cells, pods and their logs behind `runtime.*`, `observe.*` and
//! `strata.v1`, and the recovery of all of it after a restart.
//!
//! The faces are thin: parse, call [`Cells`], map the answer. Nothing here is
//! the parent of a workload, so the end of this process ends none.

mod agent;
mod api;
mod blocking;
mod cells;
mod clock;
mod components;
pub mod daemon_log;
mod host_path;
pub mod images;
mod logs;
mod nested_nodes;
mod network;
mod node;
mod node_dir;
mod pods;
mod pool;
#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
mod secrets;
mod units;
mod vms;
mod volumes;

pub use agent::{Agent, AgentConfig, StoredRevocations, StoredTrust, named_servers};
/// What an agent runs on: the product has one implementation of each, and the
/// simulation (`strata-sim`) another.
pub mod simulation {
    pub use crate::agent::{
        AgentParts, AssignedSpec, BootClock, GENERATION, Host, HostNetwork, INSTANCE, Meter,
        SecretValues, ServerConnection, ServerMessages, SharedClock, StateFiles, UnitHost,
        UnitName, UnitStatus, UnitType, Uplink,
    };
    pub use crate::units::Health;
}
pub use cells::Cells;
pub use nested_nodes::{HANDED_IDENTITY, SPAWNED, SPAWNED_V2};
pub use network::{NetworkOptions, OverlayEncryption, remove_network};
pub use node::{Node, NodeConfig};
pub use node_dir::NodeDir;
pub use secrets::remove_secrets;
pub use strata_network::Subnet;
