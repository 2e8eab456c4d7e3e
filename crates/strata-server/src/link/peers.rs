//! How one node reaches each of the others: a function of the records alone.
//!
//! A node whose proven address is in the subnet of another is nested: it runs
//! on that node's host, in the network of its pods. The host reaches it there
//! and is reached at the gateway of its own subnet; nested nodes of one host
//! reach each other directly; all others are reached by way of the host,
//! because an address of a pod network leads nowhere outside of it.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use strata_api::strata::v1;

use crate::core::{Node, is_within};

/// What the node of this name is told of the others. `server` is where it
/// reaches this host.
pub(super) fn peers(nodes: &[&Node], name: &str, server: Option<IpAddr>) -> v1::Peers {
    let others = nodes.iter().filter(|node| node.name != name);
    let peers = match nodes.iter().find(|node| node.name == name) {
        Some(own) => {
            let view = View {
                nodes,
                own,
                server: server.filter(|ip| !ip.is_loopback() && !ip.is_unspecified()),
            };
            others.clone().filter_map(|peer| view.peer(peer)).collect()
        }
        None => Vec::new(),
    };
    v1::Peers {
        peers,
        others: others.count() > 0,
        ..v1::Peers::default()
    }
}

/// The nodes as one of them sees them.
struct View<'a> {
    nodes: &'a [&'a Node],
    own: &'a Node,
    server: Option<IpAddr>,
}

impl<'a> View<'a> {
    fn peer(&self, peer: &'a Node) -> Option<v1::Peer> {
        // One that was left without an address is left out altogether.
        if peer.address.is_empty() && !peer.beside_server {
            return None;
        }
        let (next_hop, address) = match self.direct(peer) {
            Some(address) => (peer, address),
            None => {
                let host = self.host_of(self.own).or_else(|| self.host_of(peer))?;
                (host, self.direct(host)?)
            }
        };
        let is_behind = next_hop.name != peer.name;
        Some(v1::Peer {
            name: peer.name.clone(),
            address,
            subnet: peer.subnet.clone(),
            wireguard_key: STANDARD.decode(&next_hop.overlay.key).unwrap_or_default(),
            wireguard_port: next_hop.overlay.port.into(),
            via_subnet: match is_behind {
                true => next_hop.subnet.clone(),
                false => String::new(),
            },
        })
    }

    /// The address at which a node is reached without another in between.
    fn direct(&self, peer: &Node) -> Option<String> {
        let is = |host: Option<&Node>, node: &Node| host.is_some_and(|one| one.name == node.name);
        let (around, theirs) = (self.host_of(self.own), self.host_of(peer));
        if is(around, peer) {
            return gateway(&peer.subnet);
        }
        match (around, theirs) {
            (_, Some(host)) if host.name == self.own.name => Some(peer.address.clone()),
            (Some(one), Some(other)) if one.name == other.name => Some(peer.address.clone()),
            (None, None) => self.underlay(peer),
            _ => None,
        }
    }

    /// The address of one that is nested in no other.
    fn underlay(&self, peer: &Node) -> Option<String> {
        let server = self.server.filter(|_| peer.beside_server);
        let known = Some(peer.address.clone()).filter(|address| !address.is_empty());
        server.map(|ip| ip.to_string()).or(known)
    }

    /// The node in whose network another one is.
    fn host_of(&self, node: &Node) -> Option<&'a Node> {
        let address: Ipv4Addr = node.address.parse().ok()?;
        let mut hosts = self.nodes.iter().filter(|one| one.name != node.name);
        let host = hosts.find(|one| is_within(&one.subnet, address));
        host.filter(|_| node.address_proven).copied()
    }
}

/// The address of a node in its own subnet: the first.
fn gateway(subnet: &str) -> Option<String> {
    let network: Ipv4Addr = subnet.split_once('/')?.0.parse().ok()?;
    let first = network.to_bits().checked_add(1)?;
    Some(Ipv4Addr::from_bits(first).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host of the server, two nested nodes of it, a remote node, and one
    /// nested in that.
    fn world() -> Vec<Node> {
        let node = |name: &str, number: u8, address: &str| {
            let text = serde_json::json!({
                "name": name, "subnet": format!("10.42.{number}.0/24"), "condition": "ready",
                "address": address, "addressProven": true, "createdAtMs": 0, "changedAtMs": 0,
                "besideServer": address.is_empty(),
                "overlay": { "key": STANDARD.encode([number; 32]), "port": 51820 },
            });
            serde_json::from_value(text).unwrap()
        };
        vec![
            node("host", 1, ""),
            node("local-1", 2, "10.42.1.5"),
            node("local-2", 3, "10.42.1.6"),
            node("remote", 4, "192.0.2.4"),
            node("nested", 5, "10.42.4.9"),
        ]
    }

    /// Name, address and the subnet in between, for each peer of a node.
    fn ways(nodes: &[Node], name: &str, server: [u8; 4]) -> Vec<(String, String, String)> {
        let nodes: Vec<&Node> = nodes.iter().collect();
        let told = peers(&nodes, name, Some(server.into()));
        assert!(told.others);
        let way = |peer: v1::Peer| (peer.name, peer.address, peer.via_subnet);
        told.peers.into_iter().map(way).collect()
    }

    fn way(name: &str, address: &str, via: &str) -> (String, String, String) {
        (name.into(), address.into(), via.into())
    }

    #[test]
    fn every_node_has_a_way_to_every_other() {
        let nodes = world();
        assert_eq!(
            ways(&nodes, "host", [127, 0, 0, 1]),
            [
                way("local-1", "10.42.1.5", ""),
                way("local-2", "10.42.1.6", ""),
                way("remote", "192.0.2.4", ""),
                way("nested", "192.0.2.4", "10.42.4.0/24"),
            ]
        );
        assert_eq!(
            ways(&nodes, "local-1", [10, 42, 1, 1]),
            [
                way("host", "10.42.1.1", ""),
                way("local-2", "10.42.1.6", ""),
                way("remote", "10.42.1.1", "10.42.1.0/24"),
                way("nested", "10.42.1.1", "10.42.1.0/24"),
            ]
        );
        assert_eq!(
            ways(&nodes, "remote", [192, 0, 2, 1]),
            [
                way("host", "192.0.2.1", ""),
                way("local-1", "192.0.2.1", "10.42.1.0/24"),
                way("local-2", "192.0.2.1", "10.42.1.0/24"),
                way("nested", "10.42.4.9", ""),
            ]
        );
        assert_eq!(
            ways(&nodes, "nested", [192, 0, 2, 1]),
            [
                way("host", "10.42.4.1", "10.42.4.0/24"),
                way("local-1", "10.42.4.1", "10.42.4.0/24"),
                way("local-2", "10.42.4.1", "10.42.4.0/24"),
                way("remote", "10.42.4.1", ""),
            ]
        );
    }

    #[test]
    fn the_key_of_a_way_is_that_of_the_node_that_is_sent_to() {
        let nodes = world();
        let nodes: Vec<&Node> = nodes.iter().collect();
        let told = peers(&nodes, "remote", Some([192, 0, 2, 1].into()));
        let key = |name: &str| {
            let peer = told.peers.iter().find(|peer| peer.name == name).unwrap();
            peer.wireguard_key[0]
        };
        assert_eq!((key("host"), key("local-1"), key("nested")), (1, 1, 5));
    }

    #[test]
    fn an_address_that_was_only_said_makes_no_node_nested() {
        let mut nodes = world();
        nodes[1].address_proven = false;
        let ways = ways(&nodes, "remote", [192, 0, 2, 1]);
        assert!(ways.contains(&way("local-1", "10.42.1.5", "")), "{ways:?}");
    }

    #[test]
    fn a_node_that_was_left_without_an_address_is_left_out() {
        let mut nodes = world();
        nodes[0].beside_server = false;
        let ways = ways(&nodes, "local-1", [10, 42, 1, 1]);
        assert!(ways.iter().all(|(name, ..)| name != "host"), "{ways:?}");
    }
}
