//! What the agent needs of the host that it runs on. The node implements it
//! with pods, virtual machines, the shim and the network (`runtime.rs`,
//! `node_host.rs`); the simulation with units that take virtual time.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use strata_api::strata::v1;
use strata_cell::Lease;
use strata_network::{NameChange, Peer, ProjectAccess, Subnet};
use strata_types::pod::PodState;
use strata_types::{Ending, Label, Result};

use super::assigned_spec::{AssignedSpec, SecretValues, UnitName, UnitType};
use crate::units::Health;

/// A unit as it is.
#[derive(Clone, Debug)]
pub struct UnitStatus {
    /// The instance that it is; none of what was made here by hand.
    pub instance: Option<String>,
    pub generation: u64,
    pub state: PodState,
    pub reason: String,
    pub address: Option<Ipv4Addr>,
    pub restarts: u32,
    pub ending: Option<Ending>,
    pub health: Health,
    /// Whether its record says that it is to run.
    pub wanted: bool,
    /// Its record cannot be read: what it is and whether it runs is not known.
    pub damaged: bool,
}

/// The pods and virtual machines of a host.
pub trait UnitHost: Send + Sync + 'static {
    fn look(&self, unit: &UnitName) -> Option<UnitStatus>;
    /// How far the pull of its image is, if it waits for one.
    fn pull_progress(&self, unit_spec: &AssignedSpec) -> Option<String>;
    /// Makes a unit; the same again is fine.
    fn create(&self, unit_spec: AssignedSpec) -> BoxFuture<'_, Result<()>>;
    fn start<'a>(&'a self, unit: &'a UnitName) -> BoxFuture<'a, Result<()>>;
    /// Ends a unit within this time, or as long as its specification says.
    fn stop<'a>(&'a self, unit: &'a UnitName, grace: Option<Duration>)
    -> BoxFuture<'a, Result<()>>;
    /// Takes a unit away; one that is gone is fine. It has this long to end, or
    /// as long as its specification says.
    fn destroy<'a>(
        &'a self,
        unit: &'a UnitName,
        grace: Option<Duration>,
    ) -> BoxFuture<'a, Result<()>>;
    /// Kills what runs of a unit, now: also while it is being stopped or taken
    /// away with more time. It does not wait for the end; that the unit is not
    /// there is fine.
    fn kill(&self, unit: &UnitName) -> Result<()>;
    /// Has the shim end a unit with the lease of this node, or not.
    fn set_fenced(&self, unit: &UnitName, fenced: bool) -> Result<()>;
    /// The names of units of a kind to which something happens from now on;
    /// none where some were missed.
    fn events(&self, kind: UnitType) -> BoxStream<'static, Option<String>>;
    /// Keeps the values of secrets for a unit.
    fn put_secrets(&self, unit: &UnitName, project: &str, values: &SecretValues) -> Result<()>;
    fn remove_secrets(&self, unit: &UnitName);
    /// Removes those of all other units.
    fn keep_secrets_of(&self, units: &HashSet<Label>);
}

/// What the agent sets and reads of the network of its host.
pub trait HostNetwork: Send + Sync + 'static {
    fn overlay_encryption(&self) -> v1::OverlayEncryption;
    fn set_projects(&self, access: ProjectAccess) -> Result<()>;
    fn update_names(&self, change: NameChange);
    fn set_others(&self, others: bool) -> Result<()>;
    fn set_peers(&self, peers: Vec<Peer>) -> Result<()>;
    fn give(&self, subnet: Subnet, range: Subnet) -> Result<()>;
    fn peer_count(&self) -> usize;
    fn has_peers(&self) -> bool;
}

/// Measures periodically what the host and its units use.
pub trait Meter: Send {
    fn look(&mut self, units: &[(String, UnitName)]) -> v1::NodeLoad;
}

/// The host of an agent.
pub trait Host: Send + Sync + 'static {
    fn network(&self) -> &dyn HostNetwork;
    /// What the node reports of itself when it connects, and answers other
    /// nodes on this port.
    fn hello(&self, witness_port: u16) -> v1::Hello;
    fn meter(&self) -> Box<dyn Meter>;
    /// Has the shim hold this lease: it ends what is fenced with it, also
    /// without the agent.
    fn set_lease(&self, lease: Lease) -> BoxFuture<'static, Result<()>>;
    /// The lease that the shim holds from before the agent started.
    fn adopt_lease(&self) -> Lease;
}
