//! Which node runs on the host of another: its proven address is in the subnet of
//! that node's pods. Nodes are found by their subnets, since a search through all
//! of them for each of them would be slow where there are thousands.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::Tables;
use super::record::Node;

/// Finds nodes by their subnets.
pub(crate) trait Hosts {
    fn with_subnet(&self, subnet: &str) -> Option<&Node>;
}

impl Hosts for HashMap<&str, &Node> {
    fn with_subnet(&self, subnet: &str) -> Option<&Node> {
        self.get(subnet).copied()
    }
}

impl Hosts for Tables {
    fn with_subnet(&self, subnet: &str) -> Option<&Node> {
        self.node_of_subnet(subnet)
    }
}

/// The node on whose host another one runs. An address that a node only claims
/// makes it nested in nothing. All subnets of nodes are of 24 bits.
pub(crate) fn host_of<'a>(hosts: &'a impl Hosts, node: &Node) -> Option<&'a Node> {
    let address: Ipv4Addr = node.address.parse().ok()?;
    let network = Ipv4Addr::from_bits(address.to_bits() & !0xff);
    let host = hosts.with_subnet(&format!("{network}/24"));
    host.filter(|host| node.address_proven && host.name != node.name)
}
