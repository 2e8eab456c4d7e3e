//! How one node reaches each of the others: a function of the records alone.
//!
//! A node whose proven address is in the subnet of another is nested: it runs
//! on that node's host, in the network of its pods. The host reaches it there
//! and is reached at the gateway of its own subnet; nested nodes of one host
//! reach each other directly; all others are reached by way of the host,
//! because an address of a pod network leads nowhere outside of it.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use strata_api::strata::v1;

use crate::core::{Hosts, Node, Tables, host_of};

/// What the node of this name is sent of its peers. `server` is where it
/// reaches this host.
pub(super) fn peers(nodes: &[&Node], name: &str, server: Option<IpAddr>) -> v1::Peers {
    let others = nodes.iter().filter(|node| node.name != name);
    let hosts: HashMap<&str, &Node> = nodes.iter().map(|node| (&*node.subnet, *node)).collect();
    let peers = match nodes.iter().find(|node| node.name == name) {
        Some(own) => {
            let view = View::new(own, &hosts, server);
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

/// What the node of this name is sent when these peers changed; none when it
/// has to be sent all, because it is reached by them in another way itself.
pub(super) fn changed_peers(
    tables: &Tables,
    name: &str,
    server: Option<IpAddr>,
    changed: &BTreeSet<String>,
) -> Option<v1::Peers> {
    let own = &tables.nodes.get(name)?.record;
    let view = View::new(own, tables, server);
    let host = view.host_of(own).map(|host| host.name.as_str());
    if changed.contains(name) || host.is_some_and(|host| changed.contains(host)) {
        return None;
    }
    let (mut peers, mut gone) = (Vec::new(), Vec::new());
    for name in changed {
        let node = tables.nodes.get(name);
        match node.and_then(|node| view.peer(&node.record)) {
            Some(peer) => peers.push(peer),
            None => gone.push(name.clone()),
        }
    }
    Some(v1::Peers {
        peers,
        gone,
        delta: true,
        others: tables.nodes.len() > 1,
        ..v1::Peers::default()
    })
}

/// The nodes as one of them sees them.
struct View<'a, H> {
    hosts: &'a H,
    own: &'a Node,
    server: Option<IpAddr>,
}

impl<'a, H: Hosts> View<'a, H> {
    fn new(own: &'a Node, hosts: &'a H, server: Option<IpAddr>) -> Self {
        let server = server.filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
        Self { hosts, own, server }
    }

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
        host_of(self.hosts, node)
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

    /// Tables with so many nodes; each third is nested in the one before it.
    fn tables(many: u32) -> Tables {
        let mut tables = Tables::default();
        let mut before = String::new();
        for (number, subnet) in (0..many).zip(crate::core::Range::DEFAULT.subnets()) {
            let own = Ipv4Addr::from_bits((172 << 24) + (16 << 16) + number).to_string();
            let nested = before.replace(".0/24", ".5");
            let address = if number % 3 == 1 { nested } else { own };
            put(&mut tables, number, &subnet, &address);
            before = subnet;
        }
        tables
    }

    fn put(tables: &mut Tables, number: u32, subnet: &str, address: &str) {
        let record = serde_json::json!({
            "name": format!("n{number}"), "subnet": subnet, "condition": "ready",
            "address": address, "addressProven": true, "createdAtMs": 0, "changedAtMs": 0,
            "overlay": { "key": STANDARD.encode([7; 32]), "port": 51820 },
        });
        let revision = strata_store::Revision::from(number) + 1;
        let entry = strata_store::Entry {
            key: format!("node/n{number}"),
            value: record.to_string().into(),
            created: revision,
            changed: revision,
            lease: None,
        };
        tables.apply(&strata_store::Change::Put(entry)).unwrap();
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn peer_delta_equals_the_full_list() {
        let tables = tables(9);
        let all: Vec<&Node> = tables.nodes.values().map(|node| &node.record).collect();
        for own in 0..9 {
            let own = format!("n{own}");
            let whole = peers(&all, &own, None).peers;
            for peer in &whole {
                let changed = names(&[&peer.name]);
                let Some(delta) = changed_peers(&tables, &own, None, &changed) else {
                    continue;
                };
                assert_eq!(delta.peers, std::slice::from_ref(peer), "{own}");
            }
        }
        let delta = changed_peers(&tables, "n0", None, &names(&["n8", "left"])).unwrap();
        assert!(delta.delta && delta.others);
        assert_eq!(
            (delta.peers.len(), delta.gone),
            (1, vec!["left".to_owned()])
        );
        let own = changed_peers(&tables, "n1", None, &names(&["n1"]));
        assert_eq!(own, None, "it is another itself");
        let host = changed_peers(&tables, "n1", None, &names(&["n0"]));
        assert_eq!(host, None, "all its ways lead over its host");
        assert_eq!(
            tables
                .nested_in(&tables.nodes["n0"].subnet)
                .collect::<Vec<_>>(),
            ["n1"]
        );
    }

    #[test]
    fn what_is_nested_in_a_nested_node_is_announced_when_its_host_goes() {
        let mut tables = Tables::default();
        for (number, subnet, address) in [
            (0, "10.42.1.0/24", "192.0.2.1"),
            (1, "10.42.2.0/24", "10.42.1.5"),
            (2, "10.42.3.0/24", "10.42.2.5"),
            (3, "10.42.4.0/24", "192.0.2.4"),
        ] {
            put(&mut tables, number, subnet, address);
        }
        let way = |tables: &Tables| {
            let all: Vec<&Node> = tables.nodes.values().map(|node| &node.record).collect();
            let found = peers(&all, "n3", None).peers.into_iter();
            found.filter(|peer| peer.name == "n2").collect::<Vec<_>>()
        };
        let below = tables.nested_below("10.42.1.0/24");
        assert_eq!(below, ["n1", "n2"].into());
        let before = way(&tables);
        let gone = strata_store::Change::Deleted {
            key: "node/n0".into(),
        };
        tables.apply(&gone).unwrap();
        assert_ne!(way(&tables), before, "n2 is reached in another way now");
    }

    /// What a change costs in a large cluster: for each link a lookup, not a
    /// list.
    #[test]
    #[allow(clippy::print_stderr)]
    fn change_in_a_cluster_of_ten_thousand_is_small() {
        use prost::Message as _;
        let many = 10_000;
        let tables = tables(many);
        let all: Vec<&Node> = tables.nodes.values().map(|node| &node.record).collect();
        let begin = std::time::Instant::now();
        let whole = peers(&all, "n0", None);
        let (whole_took, whole_size) = (begin.elapsed(), whole.encoded_len());
        assert_eq!(whole.peers.len(), 9_999);
        let changed = names(&["n17"]);
        let begin = std::time::Instant::now();
        let links = 100;
        let mut size = 0;
        for number in 0..links {
            let delta = changed_peers(&tables, &format!("n{}", 100 + 3 * number), None, &changed);
            size = delta.unwrap().encoded_len();
        }
        let took = begin.elapsed() / links;
        eprintln!("whole list: {whole_took:?}, {whole_size} bytes; change: {took:?}, {size} bytes");
        assert!(size < 200, "{size}");
        assert!(took < whole_took / 20, "{took:?} of {whole_took:?}");
    }

    #[test]
    fn peer_route_has_the_key_of_its_target_node() {
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
    fn unproven_address_makes_no_node_nested() {
        let mut nodes = world();
        nodes[1].address_proven = false;
        let ways = ways(&nodes, "remote", [192, 0, 2, 1]);
        assert!(ways.contains(&way("local-1", "10.42.1.5", "")), "{ways:?}");
    }

    #[test]
    fn node_without_an_address_is_not_a_peer() {
        let mut nodes = world();
        nodes[0].beside_server = false;
        let ways = ways(&nodes, "local-1", [10, 42, 1, 1]);
        assert!(ways.iter().all(|(name, ..)| name != "host"), "{ways:?}");
    }
}
