//! The real host: a node with its shim, its network and what its kernel
//! reports.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use futures_util::future::BoxFuture;
use strata_api::strata::v1;
use strata_cell::Lease;
use strata_network::{NameChange, Peer, ProjectAccess, Subnet};
use strata_types::{Error, Result};

use super::hello::hello;
use super::host::{Host, HostNetwork, Meter};
use super::measure::UsageMeter;
use super::runtime::UnitRuntime;
use crate::Node;
use crate::blocking::blocking;
use crate::network::NodeNetwork;

/// A node, as its agent deals with it.
pub(super) struct NodeHost {
    pub(super) node: Node,
    /// Those of the configuration.
    pub(super) labels: BTreeMap<String, String>,
    /// Where other nodes reach it, where the configuration says it.
    pub(super) address: Option<Ipv4Addr>,
}

impl Host for NodeHost {
    fn network(&self) -> &dyn HostNetwork {
        &*self.node.network
    }

    fn hello(&self, witness_port: u16) -> v1::Hello {
        hello(&self.node, &self.labels, self.address, witness_port)
    }

    fn meter(&self) -> Box<dyn Meter> {
        let node = &self.node;
        let runtime = UnitRuntime::of(node);
        let meter = UsageMeter::new(&node.config.data_dir, node.pool.clone(), runtime);
        Box::new(meter)
    }

    fn set_lease(&self, lease: Lease) -> BoxFuture<'static, Result<()>> {
        let shim = self.node.shim.clone();
        Box::pin(async move {
            let set = tokio::task::spawn_blocking(move || shim.set_lease(lease)).await;
            set.unwrap_or_else(|error| Err(Error::internal(error.to_string())))
        })
    }

    fn adopt_lease(&self) -> Lease {
        blocking(|| self.node.shim.adopt_lease())
    }
}

impl HostNetwork for NodeNetwork {
    fn overlay_encryption(&self) -> v1::OverlayEncryption {
        self.overlay_encryption()
    }

    fn set_projects(&self, access: ProjectAccess) -> Result<()> {
        self.set_projects(access)
    }

    fn update_names(&self, change: NameChange) {
        self.update_names(change);
    }

    fn set_others(&self, others: bool) -> Result<()> {
        self.set_others(others)
    }

    fn set_peers(&self, peers: Vec<Peer>) -> Result<()> {
        self.set_peers(peers)
    }

    fn give(&self, subnet: Subnet, range: Subnet) -> Result<()> {
        self.give(subnet, range)
    }

    fn peer_count(&self) -> usize {
        self.peer_count()
    }

    fn has_peers(&self) -> bool {
        self.has_peers()
    }
}
