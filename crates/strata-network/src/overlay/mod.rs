//! The overlay, by which every pod reaches every pod: a WireGuard device for
//! peers that have a key, and a VXLAN device for those that have none.
//!
//! Nothing is learned or queried. With WireGuard each peer is a key that is
//! bound to its subnet, and a route ([`crate::wireguard`]). With VXLAN it is a
//! route to its subnet, a neighbour entry with the hardware address of its
//! device, and an entry with its address of the underlay; hardware addresses
//! follow from subnets, so peers exchange nothing.
//!
//! A subnet has one route, which is replaced in place when its node gets a
//! key: what is on its way is lost, and nothing takes a third way.

mod detour;
mod plan;

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
use crate::{Network, Subnet, WireGuardPeer, bridge, link, neighbour};

pub(crate) use detour::remove_detour;
pub(crate) use plan::PeerPlan;

/// Another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Peer {
    pub subnet: Subnet,
    /// Its address as this node reaches it.
    pub underlay: Ipv4Addr,
    /// Its key, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wireguard: Option<WireGuardPeer>,
    /// The subnet of the node that passes packets on to this one, where this
    /// node cannot send there itself: a nested node is behind its host.
    /// `underlay` and `wireguard` are those of that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Subnet>,
}

impl Peer {
    /// One without a key.
    pub fn new(subnet: Subnet, underlay: Ipv4Addr) -> Self {
        Self {
            subnet,
            underlay,
            wireguard: None,
            via: None,
        }
    }

    /// The subnet of the node that packets are sent to: its own, or that of
    /// the node it is behind.
    fn next_hop(&self) -> Subnet {
        self.via.unwrap_or(self.subnet)
    }
}

/// What carries packets to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverlayTransport {
    WireGuard,
    Vxlan,
}

impl Network {
    /// Sets the other nodes to exactly these. Only what differs is changed;
    /// without peers there is no device. Those with a key are encrypted for,
    /// where this node has one.
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
        let wanted = PeerPlan::of(peers, &inner.config);
        let before = std::mem::replace(&mut inner.state().peers, wanted.clone());
        wanted.warn(&before, &inner.config);
        let done = inner
            .admit(&before, &wanted)
            .and_then(|()| inner.route_peers(&before, &wanted));
        if done.is_err() {
            // Whatever was done is compared with the kernel the next time.
            inner.state().peers = PeerPlan::default();
        }
        done
    }
}

impl Inner {
    /// Lets packets of VXLAN in from peers without a key alone.
    fn admit(&self, before: &PeerPlan, wanted: &PeerPlan) -> Result<()> {
        let (before, wanted): (BTreeSet<_>, BTreeSet<_>) =
            (before.admitted().collect(), wanted.admitted().collect());
        let elements = |a: &BTreeSet<Ipv4Addr>, b: &BTreeSet<Ipv4Addr>| -> Vec<Element> {
            a.difference(b).map(|ip| Element::peer(*ip)).collect()
        };
        let (out, into) = (elements(&before, &wanted), elements(&wanted, &before));
        self.change(&mut self.rules(), &out, &into)
    }

    /// A device goes last, when nothing has a route by it any more.
    fn route_peers(&self, before: &PeerPlan, wanted: &PeerPlan) -> Result<()> {
        let mut links = self.links();
        self.detour(&mut links, wanted)?;
        if !wanted.encrypted.is_empty() {
            self.route_encrypted(&mut links, before, wanted)?;
        }
        if !wanted.plain.is_empty() {
            self.route_plain(&mut links, before, wanted)?;
        }
        let tag = &self.config.tag;
        if wanted.encrypted.is_empty() {
            link::delete(&mut links, &tag.wireguard())?;
        }
        if wanted.plain.is_empty() {
            link::delete(&mut links, &tag.overlay())?;
        }
        Ok(())
    }

    fn route_encrypted(
        &self,
        links: &mut Socket,
        before: &PeerPlan,
        wanted: &PeerPlan,
    ) -> Result<()> {
        let Some(config) = &self.config.wireguard else {
            return Ok(());
        };
        let (device, fresh) = self.ensure_wireguard(links, config)?;
        let mut known = before.encrypted.clone();
        if fresh {
            known.clear();
        } else if known.is_empty() {
            self.remove_stale(links, (OverlayTransport::WireGuard, device), wanted)?;
        }
        // Before the routes: nothing is sent to a peer that is not there.
        self.set_wireguard_peers(&known, &wanted.encrypted)?;
        for gone in known.difference(&wanted.encrypted) {
            self.delete_routes(links, (OverlayTransport::WireGuard, device), gone, wanted)?;
        }
        let mut batch = Batch::default();
        for new in wanted.encrypted.difference(&known) {
            for way in self.ways(OverlayTransport::WireGuard, device, new) {
                way.add(&mut batch);
            }
        }
        links
            .talk(&mut batch)
            .map(drop)
            .map_err(kernel("add the routes to encrypted peers"))
    }

    fn route_plain(&self, links: &mut Socket, before: &PeerPlan, wanted: &PeerPlan) -> Result<()> {
        let name = self.config.tag.overlay();
        let (device, fresh) = self.ensure_overlay(links, &name)?;
        let mut known = before.plain.clone();
        if fresh {
            known.clear();
        } else if known.is_empty() {
            // Of an earlier daemon: whatever is there and not desired goes.
            self.remove_stale(links, (OverlayTransport::Vxlan, device), wanted)?;
        }
        for gone in known.difference(&wanted.plain) {
            self.delete_peer(links, device, gone, wanted)?;
        }
        let mut batch = Batch::default();
        for new in wanted.plain.difference(&known) {
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

    /// Makes the device again where it is gone, and its routes: they go with
    /// the bridge too, whose address they name.
    pub(crate) fn repair_overlay(&self) -> Result<()> {
        let _alone = self.topology.lock().unwrap_or_else(PoisonError::into_inner);
        let peers = self.state().peers.clone();
        if peers.reached().next().is_none() {
            return Ok(());
        }
        self.route_peers(&PeerPlan::default(), &peers)
    }

    fn add_peer(&self, batch: &mut Batch, device: u32, peer: &Peer) {
        // Those behind another have nothing but routes: the entries are the
        // other's.
        let mac = Mac::of_overlay(peer.subnet);
        if peer.via.is_none() {
            forwarding_entry(batch, neighbour::SAY, device, mac, peer.underlay);
        }
        for way in self.ways(OverlayTransport::Vxlan, device, peer) {
            if let Some(gateway) = way.gateway.filter(|_| peer.via.is_none()) {
                neighbour::entry(batch, neighbour::SAY, device, gateway, mac);
            }
            way.add(batch);
        }
    }

    /// Takes a peer of VXLAN away. What another peer now has in its place
    /// stays.
    fn delete_peer(
        &self,
        links: &mut Socket,
        device: u32,
        peer: &Peer,
        wanted: &PeerPlan,
    ) -> Result<()> {
        let stays = is_reached(peer.subnet, wanted);
        self.delete_routes(links, (OverlayTransport::Vxlan, device), peer, wanted)?;
        if peer.via.is_some() || (stays && !is_behind(peer.subnet, wanted)) {
            return Ok(());
        }
        let (mac, delete) = (Mac::of_overlay(peer.subnet), neighbour::FORGET);
        let mut place = Batch::default();
        forwarding_entry(&mut place, delete, device, mac, peer.underlay);
        delete_all(links, peer.subnet, [place])?;
        let gateways = self.ways(OverlayTransport::Vxlan, device, peer).into_iter();
        let entries = gateways.filter_map(|way| way.gateway).map(|gateway| {
            let mut entry = Batch::default();
            neighbour::entry(&mut entry, delete, device, gateway, mac);
            entry
        });
        delete_all(links, peer.subnet, entries)
    }

    /// Takes the routes to a subnet away, by this device. What another peer
    /// now has in its place stays.
    fn delete_routes(
        &self,
        links: &mut Socket,
        (carrier, device): (OverlayTransport, u32),
        peer: &Peer,
        wanted: &PeerPlan,
    ) -> Result<()> {
        if is_reached(peer.subnet, wanted) {
            return Ok(());
        }
        let routes = self.ways(carrier, device, peer).into_iter().map(|way| {
            let mut route = Batch::default();
            way.delete_by_any_gateway(&mut route);
            route
        });
        delete_all(links, peer.subnet, routes)
    }

    /// The routes to a peer.
    fn ways(&self, carrier: OverlayTransport, device: u32, peer: &Peer) -> Vec<Route> {
        let own = self.config.subnet;
        let (subnet, next_hop) = (peer.subnet, peer.next_hop());
        let table = self.routing_table(subnet);
        // WireGuard knows by the address whose it is.
        let direct = carrier == OverlayTransport::WireGuard;
        let way = |to: (IpAddr, u8), gateway: IpAddr, source: IpAddr| Route {
            to,
            gateway: (!direct).then_some(gateway),
            interface: device,
            source: Some(source),
            on_link: !direct,
            table,
        };
        let mut ways = vec![way(
            (subnet.network().into(), subnet.prefix()),
            next_hop.gateway().into(),
            own.gateway().into(),
        )];
        if self.ipv6 {
            ways.push(way(
                (ipv6_of(subnet, subnet.network()).into(), 64),
                ipv6_of(next_hop, next_hop.gateway()).into(),
                ipv6_of(own, own.gateway()).into(),
            ));
        }
        ways
    }

    /// Removes the routes of subnets that no peer has. Their neighbours lead
    /// nowhere without them, and are replaced should the subnet come back.
    fn remove_stale(
        &self,
        links: &mut Socket,
        (carrier, device): (OverlayTransport, u32),
        wanted: &PeerPlan,
    ) -> Result<()> {
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
            if attributes.u32(route::RTA_OIF) != Some(device) {
                continue;
            }
            let stale = Peer::new(subnet, Ipv4Addr::UNSPECIFIED);
            match carrier {
                OverlayTransport::WireGuard => {
                    self.delete_routes(links, (carrier, device), &stale, wanted)?;
                }
                OverlayTransport::Vxlan => self.delete_peer(links, device, &stale, wanted)?,
            }
        }
        Ok(())
    }
}

fn is_reached(subnet: Subnet, wanted: &PeerPlan) -> bool {
    wanted.reached().any(|peer| peer.subnet == subnet)
}

/// Whether a subnet is reached by way of another node.
fn is_behind(subnet: Subnet, wanted: &PeerPlan) -> bool {
    wanted
        .reached()
        .any(|peer| peer.subnet == subnet && peer.via.is_some())
}

/// Sends messages that delete; what is gone already is no error.
fn delete_all(
    links: &mut Socket,
    subnet: Subnet,
    messages: impl IntoIterator<Item = Batch>,
) -> Result<()> {
    for mut message in messages {
        match links.talk(&mut message) {
            Err(e) if !e.is(Errno::NOENT) && !e.is(Errno::SRCH) => {
                return Err(kernel(format!("remove the peer {subnet}"))(e));
            }
            _ => {}
        }
    }
    Ok(())
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
