//! How each peer is reached: by WireGuard where both have a key, else by
//! VXLAN, or not at all where only what is encrypted may pass.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::Peer;
use crate::NetworkConfig;

/// The peers, by how they are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerPlan {
    pub(crate) encrypted: BTreeSet<Peer>,
    /// By VXLAN, in the clear.
    pub(crate) plain: BTreeSet<Peer>,
    pub(crate) refused: BTreeSet<Peer>,
}

impl PeerPlan {
    /// Decides for each. Peers that show the same key are refused: the kernel
    /// would give what is for the one to the other.
    pub(crate) fn of(peers: &[Peer], config: &NetworkConfig) -> Self {
        let mut shown: BTreeMap<_, usize> = BTreeMap::new();
        let own_keys = peers.iter().filter(|peer| peer.via.is_none());
        for key in own_keys.filter_map(|peer| peer.wireguard) {
            *shown.entry(key.key).or_default() += 1;
        }
        let own = config.wireguard.as_ref().map(|own| own.key.public());
        let mut plan = Self::default();
        for peer in peers {
            let into = match (peer.wireguard, &own) {
                (Some(theirs), Some(own)) => {
                    let is_own = own.as_ref().is_ok_and(|own| *own == theirs.key);
                    match shown.get(&theirs.key) {
                        Some(1) if !is_own => &mut plan.encrypted,
                        _ => &mut plan.refused,
                    }
                }
                _ if config.encrypted_only => &mut plan.refused,
                _ => &mut plan.plain,
            };
            into.insert(*peer);
        }
        plan
    }

    /// All that are reached.
    pub(crate) fn reached(&self) -> impl Iterator<Item = &Peer> {
        self.encrypted.iter().chain(&self.plain)
    }

    pub(crate) fn all(&self) -> BTreeSet<Peer> {
        self.reached().chain(&self.refused).copied().collect()
    }

    /// Where VXLAN may come from: never from where WireGuard does.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = Ipv4Addr> {
        let encrypted: BTreeSet<_> = self.encrypted.iter().map(|peer| peer.underlay).collect();
        let plain: BTreeSet<_> = self.plain.iter().map(|peer| peer.underlay).collect();
        plain.into_iter().filter(move |ip| !encrypted.contains(ip))
    }

    /// Logs what is not encrypted, or not reached for that reason, and was
    /// not so before.
    pub(super) fn warn(&self, before: &Self, config: &NetworkConfig) {
        if config.wireguard.is_some() {
            for peer in self.plain.difference(&before.plain) {
                tracing::warn!(
                    subnet = %peer.subnet,
                    address = %peer.underlay,
                    "overlay traffic with this node is not encrypted: it has no WireGuard key"
                );
            }
        }
        for peer in self.refused.difference(&before.refused) {
            tracing::warn!(
                subnet = %peer.subnet,
                address = %peer.underlay,
                "node is not reached by the overlay: traffic with it cannot be encrypted"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PrivateKey, WireGuardConfig, WireGuardPeer};

    fn config(key: Option<PrivateKey>, encrypted_only: bool) -> NetworkConfig {
        let (tag, subnet) = ("t1".parse().unwrap(), "10.42.0.0/24".parse().unwrap());
        let range = "10.42.0.0/16".parse().unwrap();
        let mut config = NetworkConfig::new(tag, subnet, range, "/nonexistent");
        config.wireguard = key.map(|key| WireGuardConfig { key, port: 51820 });
        config.encrypted_only = encrypted_only;
        config
    }

    fn peer(number: u8, key: Option<&PrivateKey>) -> Peer {
        let subnet = format!("10.42.{number}.0/24").parse().unwrap();
        let mut peer = Peer::new(subnet, Ipv4Addr::new(192, 0, 2, number));
        peer.wireguard = key.map(|key| WireGuardPeer {
            key: key.public().unwrap(),
            port: 51820,
        });
        peer
    }

    #[test]
    fn a_pair_with_keys_is_encrypted_and_vxlan_from_there_is_not_let_in() {
        let (own, theirs) = (PrivateKey::generate(), PrivateKey::generate().unwrap());
        let peers = [peer(1, Some(&theirs)), peer(2, None)];
        let plan = PeerPlan::of(&peers, &config(own.ok(), false));
        assert_eq!(plan.encrypted, [peers[0]].into());
        assert_eq!(plan.plain, [peers[1]].into());
        assert!(plan.admitted().eq([peers[1].underlay]));
    }

    #[test]
    fn address_is_not_admitted_for_another_peer_behind_the_same_gateway() {
        let (own, theirs) = (PrivateKey::generate(), PrivateKey::generate().unwrap());
        let encrypted = peer(1, Some(&theirs));
        let mut plain = peer(2, None);
        plain.underlay = encrypted.underlay;
        let plan = PeerPlan::of(&[encrypted, plain], &config(own.ok(), false));
        assert_eq!(plan.admitted().count(), 0);
    }

    #[test]
    fn without_a_key_of_ones_own_all_are_plain_or_refused() {
        let theirs = PrivateKey::generate().unwrap();
        let peers = [peer(1, Some(&theirs)), peer(2, None)];
        let plan = PeerPlan::of(&peers, &config(None, false));
        assert_eq!(plan.plain.len(), 2);
        let plan = PeerPlan::of(&peers, &config(None, true));
        assert_eq!((plan.refused.len(), plan.admitted().count()), (2, 0));
    }

    #[test]
    fn peer_without_a_key_is_refused_where_encryption_is_required() {
        let (own, theirs) = (PrivateKey::generate(), PrivateKey::generate().unwrap());
        let peers = [peer(1, Some(&theirs)), peer(2, None)];
        let plan = PeerPlan::of(&peers, &config(own.ok(), true));
        assert_eq!(plan.encrypted, [peers[0]].into());
        assert_eq!(plan.refused, [peers[1]].into());
        assert_eq!(plan.all(), peers.into());
    }

    #[test]
    fn duplicate_or_own_peer_key_is_rejected() {
        let (own, theirs) = (
            PrivateKey::generate().unwrap(),
            PrivateKey::generate().unwrap(),
        );
        let peers = [
            peer(1, Some(&theirs)),
            peer(2, Some(&theirs)),
            peer(3, Some(&own)),
        ];
        let plan = PeerPlan::of(&peers, &config(Some(own), false));
        assert_eq!(plan.refused, peers.into());
    }
}
