//! The other nodes, as a server sends them: all of them, or what changed.

use std::collections::BTreeMap;

use strata_api::strata::v1;
use strata_network::{Peer, PublicKey, WireGuardPeer};

/// The other nodes that a connection has named, by name.
#[derive(Debug, Default)]
pub(super) struct KnownPeers(BTreeMap<String, v1::Peer>);

impl KnownPeers {
    /// Applies what the server sends.
    pub(super) fn take(&mut self, said: &v1::Peers) {
        if !said.delta {
            self.0.clear();
        }
        for name in &said.gone {
            self.0.remove(name);
        }
        let named = said.peers.iter();
        self.0
            .extend(named.map(|one| (one.name.clone(), one.clone())));
    }

    /// Those that can be reached; the log has the others.
    pub(super) fn reachable(&self) -> Vec<Peer> {
        self.0.values().filter_map(read).collect()
    }
}

fn read(peer: &v1::Peer) -> Option<Peer> {
    let subnet = peer.subnet.parse().ok();
    let underlay = peer.address.parse().ok();
    let (Some(subnet), Some(underlay)) = (subnet, underlay) else {
        tracing::warn!(
            name = peer.name,
            subnet = peer.subnet,
            address = peer.address,
            "peer unreachable: it has no IPv4 address or no subnet"
        );
        return None;
    };
    Some(Peer {
        subnet,
        underlay,
        wireguard: wireguard(peer),
        via: peer.via_subnet.parse().ok(),
    })
}

/// The key of a peer; none where it shows none.
fn wireguard(peer: &v1::Peer) -> Option<WireGuardPeer> {
    let key = PublicKey::try_from(peer.wireguard_key.as_ref()).ok()?;
    let port = u16::try_from(peer.wireguard_port).ok()?;
    (port != 0).then_some(WireGuardPeer { key, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8, address: &str) -> v1::Peer {
        v1::Peer {
            name: format!("n{number}"),
            address: address.into(),
            subnet: format!("10.42.{number}.0/24"),
            ..v1::Peer::default()
        }
    }

    fn said(delta: bool, peers: &[v1::Peer], gone: &[&str]) -> v1::Peers {
        v1::Peers {
            delta,
            peers: peers.to_vec(),
            gone: gone.iter().map(|name| (*name).to_owned()).collect(),
            ..v1::Peers::default()
        }
    }

    #[test]
    fn changes_are_taken_into_what_is_known_and_a_whole_list_replaces_it() {
        let mut known = KnownPeers::default();
        let addresses = |known: &KnownPeers| {
            let all = known.reachable().into_iter();
            all.map(|one| one.underlay.to_string()).collect::<Vec<_>>()
        };
        known.take(&said(
            false,
            &[peer(1, "192.0.2.1"), peer(2, "192.0.2.2")],
            &[],
        ));
        assert_eq!(addresses(&known), ["192.0.2.1", "192.0.2.2"]);
        known.take(&said(
            true,
            &[peer(2, "192.0.2.9"), peer(3, "192.0.2.3")],
            &["n1", "n7"],
        ));
        assert_eq!(addresses(&known), ["192.0.2.9", "192.0.2.3"]);
        known.take(&said(true, &[], &[]));
        assert_eq!(addresses(&known).len(), 2);
        known.take(&said(
            false,
            &[peer(4, "nowhere"), peer(5, "192.0.2.5")],
            &[],
        ));
        assert_eq!(addresses(&known), ["192.0.2.5"]);
    }
}
