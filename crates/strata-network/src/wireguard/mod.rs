//! The encrypted overlay: one WireGuard device, on which every other node
//! with a key is a peer.
//!
//! A peer's key is bound to its subnet twice. What goes to the subnet is
//! encrypted for that key; what comes by that key is dropped by the kernel
//! unless its source is in the subnet. So a node reads and sends for itself
//! alone, whatever it sends. Sessions, their keys, the change of these every
//! two minutes and the protection against replay are the kernel's.
//!
//! The device outlives the daemon, so traffic goes on without it. A daemon
//! that comes back changes only what differs.

mod key;
mod socket;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddrV4};
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub use self::key::{KeyError, PrivateKey, PublicKey};
use self::socket::{Change, WireGuardSocket};
use crate::endpoint::ipv6_of;
use crate::error::{NetworkError, Result, kernel};
use crate::forwarding::set_own;
use crate::netlink::{Batch, Socket};
use crate::network::Inner;
use crate::{Peer, Subnet, bridge, link};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireGuardConfig {
    pub key: PrivateKey,
    /// The UDP port to listen on. Where another process has it, the kernel
    /// chooses one: see [`crate::Network::wireguard_port`].
    pub port: u16,
}

/// Of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WireGuardPeer {
    pub key: PublicKey,
    /// The UDP port that it listens on.
    pub port: u16,
}

/// Whether the kernel has WireGuard; one that has it as a module loads it.
pub fn is_available() -> bool {
    WireGuardSocket::open().is_ok()
}

impl Inner {
    /// The device with this node's key, up, and whether it was made just now.
    pub(crate) fn ensure_wireguard(
        &self,
        links: &mut Socket,
        config: &WireGuardConfig,
    ) -> Result<(u32, bool)> {
        let name = self.config.tag.wireguard();
        let found = link::find(links, &name)?;
        let fresh = !found.as_ref().is_some_and(|device| device.up);
        if fresh {
            if found.is_some() {
                // Routes are lost when it goes down.
                link::delete(links, &name)?;
            }
            let mut batch = Batch::default();
            link::add_wireguard(&mut batch, &name, self.mtu);
            links
                .talk(&mut batch)
                .map_err(kernel(format!("make the encrypted overlay {name}")))?;
        }
        let Some(device) = link::find(links, &name)? else {
            return Err(NetworkError::BridgeGone(name));
        };
        if fresh {
            self.start_wireguard(links, device.index, config)?;
        } else {
            // On the port it has: peers know that one.
            set_device(&name, config, listen_port(&name)?)?;
        }
        let port = listen_port(&name)?;
        self.wireguard_port.store(port, Ordering::Relaxed);
        if device.mtu != self.mtu {
            let mut batch = Batch::default();
            link::set_mtu(&mut batch, device.index, self.mtu);
            links
                .talk(&mut batch)
                .map_err(kernel(format!("set the MTU of {name}")))?;
        }
        set_own("ipv4", &name, "forwarding", "1")?;
        if self.ipv6 {
            bridge::forward_ipv6(&name)?;
        }
        Ok((device.index, fresh))
    }

    /// Gives a device that was just made its key, and switches it on.
    fn start_wireguard(
        &self,
        links: &mut Socket,
        index: u32,
        config: &WireGuardConfig,
    ) -> Result<()> {
        let name = self.config.tag.wireguard();
        set_device(&name, config, config.port)?;
        let mut switch_on = || {
            let mut batch = Batch::default();
            link::set_up(&mut batch, index);
            links.talk(&mut batch).map(drop)
        };
        match switch_on() {
            Err(error) if error.is(Errno::ADDRINUSE) => {
                tracing::warn!(
                    port = config.port,
                    "UDP port of the encrypted overlay is in use by another process; \
                     another one is chosen"
                );
                set_device(&name, config, 0)?;
                switch_on().map_err(kernel(format!("switch on {name}")))
            }
            done => done.map_err(kernel(format!("switch on {name}"))),
        }
    }

    /// Sets the peers of the device to exactly these. Those that are as they
    /// were `before` are left alone, so that their sessions go on and an
    /// endpoint that WireGuard has learnt stays.
    pub(crate) fn set_wireguard_peers(
        &self,
        before: &BTreeSet<Peer>,
        wanted: &BTreeSet<Peer>,
    ) -> Result<()> {
        let name = self.config.tag.wireguard();
        let changed = || -> Result<(), crate::NetlinkError> {
            let mut socket = WireGuardSocket::open()?;
            let present = socket.device(&name)?.peers;
            socket.change_peers(&name, &changes(&present, before, wanted, self.ipv6))
        };
        changed().map_err(kernel(format!("set the peers of {name}")))
    }
}

fn set_device(name: &str, config: &WireGuardConfig, port: u16) -> Result<()> {
    let set = || WireGuardSocket::open()?.set_device(name, &config.key, port);
    set().map_err(kernel(format!("set the key of {name}")))
}

fn listen_port(name: &str) -> Result<u16> {
    let asked = || WireGuardSocket::open()?.device(name);
    let device = asked().map_err(kernel(format!("look at {name}")))?;
    Ok(device.port)
}

/// What is to be changed of the peers that are `present`. First those that
/// are set, then those that go: a subnet whose node has another key moves to
/// that key in one step.
fn changes(
    present: &BTreeSet<PublicKey>,
    before: &BTreeSet<Peer>,
    wanted: &BTreeSet<Peer>,
    ipv6: bool,
) -> Vec<Change> {
    let (before, wanted) = (by_key(before), by_key(wanted));
    let mut all = Vec::new();
    for (key, peers) in &wanted {
        if present.contains(key) && before.get(key) == Some(peers) {
            continue;
        }
        let Some((first, wireguard)) = peers
            .iter()
            .find_map(|peer| peer.wireguard.map(|wireguard| (peer, wireguard)))
        else {
            continue;
        };
        all.push(Change::Set {
            key: *key,
            endpoint: SocketAddrV4::new(first.underlay, wireguard.port),
            allowed: peers
                .iter()
                .flat_map(|peer| allowed(peer.subnet, ipv6))
                .collect(),
        });
    }
    let keys: BTreeSet<PublicKey> = wanted.keys().copied().collect();
    all.extend(present.difference(&keys).copied().map(Change::Remove));
    all
}

/// The peers that a key stands for: one node, and those behind it.
fn by_key(peers: &BTreeSet<Peer>) -> BTreeMap<PublicKey, BTreeSet<Peer>> {
    let mut all: BTreeMap<PublicKey, BTreeSet<Peer>> = BTreeMap::new();
    for peer in peers {
        if let Some(wireguard) = peer.wireguard {
            all.entry(wireguard.key).or_default().insert(*peer);
        }
    }
    all
}

/// The addresses that a key may send from and is sent what is for.
fn allowed(subnet: Subnet, ipv6: bool) -> Vec<(IpAddr, u8)> {
    let mut allowed = vec![(IpAddr::V4(subnet.network()), subnet.prefix())];
    if ipv6 {
        allowed.push((IpAddr::V6(ipv6_of(subnet, subnet.network())), 64));
    }
    allowed
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn peer(subnet: &str, key: PublicKey) -> Peer {
        Peer {
            subnet: subnet.parse().unwrap(),
            underlay: Ipv4Addr::new(192, 0, 2, 7),
            wireguard: Some(WireGuardPeer { key, port: 51820 }),
            via: None,
        }
    }

    fn key() -> PublicKey {
        PrivateKey::generate().unwrap().public().unwrap()
    }

    fn touched(changes: &[Change]) -> Vec<(PublicKey, bool)> {
        let one = |change: &Change| match change {
            Change::Remove(key) => (*key, false),
            Change::Set { key, .. } => (*key, true),
        };
        changes.iter().map(one).collect()
    }

    #[test]
    fn a_peer_that_stays_is_not_touched() {
        let (a, b, gone) = (key(), key(), key());
        let one = BTreeSet::from([peer("10.42.1.0/24", a)]);
        let mut two = one.clone();
        two.insert(peer("10.42.2.0/24", b));
        let made = changes(&BTreeSet::from([a, gone]), &one, &two, false);
        assert_eq!(touched(&made), [(b, true), (gone, false)]);
        assert!(changes(&BTreeSet::from([a, b]), &two, &two, false).is_empty());
    }

    #[test]
    fn a_daemon_that_comes_back_sets_all_and_removes_what_is_stale() {
        let (a, stale) = (key(), key());
        let wanted = BTreeSet::from([peer("10.42.1.0/24", a)]);
        let made = changes(&BTreeSet::from([a, stale]), &BTreeSet::new(), &wanted, true);
        assert_eq!(touched(&made), [(a, true), (stale, false)]);
        let Change::Set { allowed, .. } = &made[0] else {
            panic!("{made:?}");
        };
        assert_eq!(allowed.len(), 2, "its subnet, and the IPv6 one");
    }

    #[test]
    fn a_key_is_good_for_the_nodes_behind_its_own() {
        let host = key();
        let own = peer("10.42.1.0/24", host);
        let nested = Peer {
            via: Some(own.subnet),
            ..peer("10.42.2.0/24", host)
        };
        let (one, both) = (BTreeSet::from([own]), BTreeSet::from([own, nested]));
        let made = changes(&BTreeSet::from([host]), &one, &both, false);
        let [Change::Set { allowed, .. }] = &made[..] else {
            panic!("{made:?}");
        };
        assert_eq!(allowed.len(), 2, "the host's subnet and the nested node's");
        let back = changes(&BTreeSet::from([host]), &both, &one, false);
        assert_eq!(touched(&back), [(host, true)]);
    }

    #[test]
    fn new_peer_key_takes_over_the_subnet_before_the_old_key_is_removed() {
        let (old, new) = (key(), key());
        let before = BTreeSet::from([peer("10.42.1.0/24", old)]);
        let wanted = BTreeSet::from([peer("10.42.1.0/24", new)]);
        let made = changes(&BTreeSet::from([old]), &before, &wanted, false);
        assert_eq!(touched(&made), [(new, true), (old, false)]);
    }
}
