//! The overlay: a VXLAN device by which every pod reaches every pod.
//!
//! Nothing is learned and nobody is asked. Each peer is a route to its
//! subnet, a neighbour entry that knows the hardware address of its device,
//! and an entry that says behind which address of the underlay that one is.
//! Hardware addresses follow from subnets, so peers exchange nothing.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::PoisonError;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::endpoint::{Mac, ipv6_of};
use crate::error::{NetworkError, Result, kernel};
use crate::forwarding::set_own;
use crate::link::Route;
use crate::netlink::{Batch, Socket, flag, route};
use crate::network::Inner;
use crate::rules::Element;
use crate::{Network, Subnet, bridge, link, neighbour};

/// Another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Peer {
    /// Its subnet.
    pub subnet: Subnet,
    /// Its address as this node reaches it.
    pub underlay: Ipv4Addr,
}

impl Network {
    /// Sets the other nodes to exactly these. Only what differs is changed;
    /// without peers there is no device.
    pub fn set_peers(&self, peers: &[Peer]) -> Result<()> {
        let inner = &self.0;
        let mut subnets = BTreeSet::from([inner.config.subnet]);
        if let Some(twice) = peers.iter().find(|peer| !subnets.insert(peer.subnet)) {
            return Err(NetworkError::PeerSubnet(twice.subnet));
        }
        let _alone = inner
            .topology
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let wanted: BTreeSet<Peer> = peers.iter().copied().collect();
        let before = std::mem::replace(&mut inner.state().peers, wanted.clone());
        let done = inner
            .admit(&before, &wanted)
            .and_then(|()| inner.route_peers(&before, &wanted));
        if done.is_err() {
            // Whatever was done is compared with the kernel the next time.
            inner.state().peers = BTreeSet::new();
        }
        done
    }
}

impl Inner {
    /// Lets packets of the overlay in from peers alone.
    fn admit(&self, before: &BTreeSet<Peer>, wanted: &BTreeSet<Peer>) -> Result<()> {
        let addresses = |peers: &BTreeSet<Peer>| -> BTreeSet<Ipv4Addr> {
            peers.iter().map(|peer| peer.underlay).collect()
        };
        let (before, wanted) = (addresses(before), addresses(wanted));
        let elements = |a: &BTreeSet<Ipv4Addr>, b: &BTreeSet<Ipv4Addr>| -> Vec<Element> {
            a.difference(b).map(|ip| Element::peer(*ip)).collect()
        };
        let (out, into) = (elements(&before, &wanted), elements(&wanted, &before));
        self.change(&mut self.rules(), &out, &into)
    }

    fn route_peers(&self, before: &BTreeSet<Peer>, wanted: &BTreeSet<Peer>) -> Result<()> {
        let name = self.config.tag.overlay();
        let mut links = self.links();
        if wanted.is_empty() {
            return link::delete(&mut links, &name);
        }
        let (device, fresh) = self.ensure_overlay(&mut links, &name)?;
        let mut known = before.clone();
        if fresh {
            known.clear();
        } else if known.is_empty() {
            // Of an earlier daemon: whatever is there and not wanted goes.
            self.remove_stale(&mut links, device, wanted)?;
        }
        for gone in known.difference(wanted) {
            self.delete_peer(&mut links, device, gone, wanted)?;
        }
        let mut batch = Batch::default();
        for new in wanted.difference(&known) {
            self.add_peer(&mut batch, device, new);
        }
        links
            .talk(&mut batch)
            .map(drop)
            .map_err(kernel("add the routes to peers"))
    }

    /// The device, and whether it was made just now.
    fn ensure_overlay(&self, links: &mut Socket, name: &str) -> Result<(u32, bool)> {
        if let Some(device) = link::find(links, name)? {
            if device.up {
                return Ok((device.index, false));
            }
            // Routes are lost when it goes down.
            link::delete(links, name)?;
        }
        let mut batch = Batch::default();
        let mac = Mac::of_overlay(self.config.subnet);
        let (id, port) = (self.facts.overlay_id(), self.config.overlay_port);
        link::add_overlay(&mut batch, name, mac, self.mtu, id, port);
        links
            .talk(&mut batch)
            .map_err(kernel(format!("make the overlay {name}")))?;
        set_own("ipv4", name, "forwarding", "1")?;
        if self.ipv6 {
            bridge::forward_ipv6(name)?;
        }
        match link::find(links, name)? {
            Some(device) => Ok((device.index, true)),
            None => Err(NetworkError::BridgeGone(name.to_owned())),
        }
    }

    /// Makes the device anew where it is gone, and its routes: they go with
    /// the bridge too, whose address they name.
    pub(crate) fn repair_overlay(&self) -> Result<()> {
        let _alone = self.topology.lock().unwrap_or_else(PoisonError::into_inner);
        let peers = self.state().peers.clone();
        if peers.is_empty() {
            return Ok(());
        }
        self.route_peers(&BTreeSet::new(), &peers)
    }

    fn add_peer(&self, batch: &mut Batch, device: u32, peer: &Peer) {
        let mac = Mac::of_overlay(peer.subnet);
        forwarding_entry(batch, neighbour::SAY, device, mac, peer.underlay);
        for way in self.ways(device, peer) {
            neighbour::entry(batch, neighbour::SAY, device, way.gateway, mac);
            way.add(batch);
        }
    }

    /// Takes a peer away. What another peer now has in its place stays.
    fn delete_peer(
        &self,
        links: &mut Socket,
        device: u32,
        peer: &Peer,
        wanted: &BTreeSet<Peer>,
    ) -> Result<()> {
        if wanted.iter().any(|other| other.subnet == peer.subnet) {
            return Ok(());
        }
        let mac = Mac::of_overlay(peer.subnet);
        let mut messages = vec![Batch::default()];
        let delete = neighbour::FORGET;
        forwarding_entry(&mut messages[0], delete, device, mac, peer.underlay);
        for way in self.ways(device, peer) {
            let (mut route, mut entry) = (Batch::default(), Batch::default());
            way.delete(&mut route);
            neighbour::entry(&mut entry, delete, device, way.gateway, mac);
            messages.extend([route, entry]);
        }
        for mut message in messages {
            match links.talk(&mut message) {
                Err(e) if !e.is(Errno::NOENT) && !e.is(Errno::SRCH) => {
                    return Err(kernel(format!("remove the peer {}", peer.subnet))(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The routes to a peer.
    fn ways(&self, device: u32, peer: &Peer) -> Vec<Route> {
        let own = self.config.subnet;
        let way = |to: (IpAddr, u8), gateway: IpAddr, source: IpAddr| Route {
            to,
            gateway,
            interface: device,
            source: Some(source),
            on_link: true,
        };
        let mut ways = vec![way(
            (peer.subnet.network().into(), peer.subnet.prefix()),
            peer.subnet.gateway().into(),
            own.gateway().into(),
        )];
        if self.ipv6 {
            ways.push(way(
                (ipv6_of(peer.subnet, peer.subnet.network()).into(), 64),
                ipv6_of(peer.subnet, peer.subnet.gateway()).into(),
                ipv6_of(own, own.gateway()).into(),
            ));
        }
        ways
    }

    /// Removes the routes of subnets that no peer has. Their neighbours lead
    /// nowhere without them, and are replaced should the subnet come back.
    fn remove_stale(&self, links: &mut Socket, device: u32, wanted: &BTreeSet<Peer>) -> Result<()> {
        let mut batch = Batch::default();
        let mut header = [0; route::ROUTE_HEADER];
        header[0] = route::AF_INET;
        batch.message(route::GETROUTE, flag::DUMP, &header);
        let replies = links.talk(&mut batch).map_err(kernel("list the routes"))?;
        for reply in replies {
            let attributes = reply.attributes(route::ROUTE_HEADER);
            let to: Option<[u8; 4]> = attributes
                .get(route::RTA_DST)
                .and_then(|bytes| bytes.try_into().ok());
            let (Some(to), Some(prefix)) = (to, reply.body().get(1)) else {
                continue;
            };
            let Ok(subnet) = Subnet::new(to.into(), *prefix) else {
                continue;
            };
            if attributes.u32(route::RTA_OIF) == Some(device)
                && wanted.iter().all(|peer| peer.subnet != subnet)
            {
                let underlay = Ipv4Addr::UNSPECIFIED;
                self.delete_peer(links, device, &Peer { subnet, underlay }, wanted)?;
            }
        }
        Ok(())
    }
}

/// Behind which address of the underlay a hardware address is.
pub(crate) fn forwarding_entry(
    batch: &mut Batch,
    kind: neighbour::Kind,
    device: u32,
    mac: Mac,
    underlay: Ipv4Addr,
) {
    let header = neighbour::header(route::AF_BRIDGE, device, route::NTF_SELF);
    batch.message(kind.0, kind.1, &header);
    if !underlay.is_unspecified() {
        batch.put(route::NDA_DST, &underlay.octets());
    }
    batch.put(route::NDA_LLADDR, &mac.0);
}
