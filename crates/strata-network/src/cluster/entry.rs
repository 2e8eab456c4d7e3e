//! What the device of a cluster's pod network has: its address and, for each
//! peer, a neighbour, a place and a route. Read from the kernel and worked
//! out from the configuration in the same form, so that the difference of two
//! sets is what is to do.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use rustix::io::Errno;

use crate::error::{Result, kernel};
use crate::link::{self, Route};
use crate::netlink::{Batch, Reply, Socket, flag, route};
use crate::overlay::forwarding_entry;
use crate::{ClusterOverlayConfig, Mac, Subnet, neighbour};

/// More than this many messages are sent in pieces.
const PIECE: usize = 256;
const HOST: u8 = 32;

/// One thing that the device has. In this order they are added: a route is
/// there last, when all that its packets need is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entry {
    /// An address of this machine, with its prefix.
    Address(Ipv4Addr, u8),
    /// The holder of an address.
    Neighbour(Ipv4Addr, Mac),
    /// On which machine that one is.
    Place(Mac, Ipv4Addr),
    /// The way to a peer's pods.
    Way(Subnet, Ipv4Addr),
}

/// What the device should have.
pub(super) fn wanted(config: &ClusterOverlayConfig) -> BTreeSet<Entry> {
    let mut all = BTreeSet::from([Entry::Address(config.subnet.network(), HOST)]);
    for peer in &config.peers {
        let (gateway, mac) = (peer.subnet.network(), Mac::of_overlay(peer.subnet));
        all.extend([
            Entry::Neighbour(gateway, mac),
            Entry::Place(mac, peer.underlay),
            Entry::Way(peer.subnet, gateway),
        ]);
    }
    all
}

/// What the device has now.
pub(super) fn read(socket: &mut Socket, device: u32) -> Result<BTreeSet<Entry>> {
    let of = |family: u8, size: usize| {
        let mut header = vec![0; size];
        header[0] = family;
        header
    };
    let inet = |size| of(route::AF_INET, size);
    let bridge = of(route::AF_BRIDGE, route::LINK_HEADER);
    type Reader = fn(&Reply, u32) -> Option<Entry>;
    let dumps: [(u16, Vec<u8>, Reader); 4] = [
        (route::GETADDR, inet(route::ADDRESS_HEADER), address),
        (route::GETNEIGH, inet(route::NEIGHBOUR_HEADER), neighbour_of),
        (route::GETNEIGH, bridge, place),
        (route::GETROUTE, inet(route::ROUTE_HEADER), way),
    ];
    let mut all = BTreeSet::new();
    for (kind, header, read) in dumps {
        let mut batch = Batch::default();
        batch.message(kind, flag::DUMP, &header);
        let replies = socket
            .talk(&mut batch)
            .map_err(kernel("read the routes of the pod network"))?;
        all.extend(replies.iter().filter_map(|reply| read(reply, device)));
    }
    Ok(all)
}

fn address(reply: &Reply, device: u32) -> Option<Entry> {
    let attributes = reply.attributes(route::ADDRESS_HEADER);
    let local = ipv4(attributes.get(route::IFA_LOCAL)?)?;
    let prefix = *reply.body().get(1)?;
    (reply.header_u32(4) == device).then_some(Entry::Address(local, prefix))
}

/// One that was set; those that the kernel resolves are its own.
fn neighbour_of(reply: &Reply, device: u32) -> Option<Entry> {
    let attributes = reply.attributes(route::NEIGHBOUR_HEADER);
    let state = reply.header_u32(8) as u16;
    let entry = Entry::Neighbour(
        ipv4(attributes.get(route::NDA_DST)?)?,
        Mac(attributes.get(route::NDA_LLADDR)?.try_into().ok()?),
    );
    let ours = reply.header_u32(4) == device && state & route::NUD_PERMANENT != 0;
    ours.then_some(entry)
}

fn place(reply: &Reply, device: u32) -> Option<Entry> {
    let attributes = reply.attributes(route::NEIGHBOUR_HEADER);
    let entry = Entry::Place(
        Mac(attributes.get(route::NDA_LLADDR)?.try_into().ok()?),
        ipv4(attributes.get(route::NDA_DST)?)?,
    );
    (reply.header_u32(4) == device).then_some(entry)
}

/// A route of the kind that is made here: others belong to other programs.
fn way(reply: &Reply, device: u32) -> Option<Entry> {
    let attributes = reply.attributes(route::ROUTE_HEADER);
    let body = reply.body();
    let ours = u32::from(*body.get(4)?) == route::RT_TABLE_MAIN
        && *body.get(5)? == route::RTPROT_STATIC
        && attributes.u32(route::RTA_OIF) == Some(device);
    let subnet = Subnet::new(ipv4(attributes.get(route::RTA_DST)?)?, *body.get(1)?).ok()?;
    let gateway = ipv4(attributes.get(route::RTA_GATEWAY)?)?;
    ours.then_some(Entry::Way(subnet, gateway))
}

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

/// Takes away what is too much and adds what is missing; whether there was
/// anything to do.
pub(super) fn change(
    socket: &mut Socket,
    device: u32,
    there: &BTreeSet<Entry>,
    wanted: &BTreeSet<Entry>,
) -> Result<bool> {
    let stale: Vec<&Entry> = there.difference(wanted).collect();
    for entry in stale.into_iter().rev() {
        let mut batch = Batch::default();
        entry.delete(&mut batch, device);
        match socket.talk(&mut batch) {
            Err(e) if !is_gone(&e) => return Err(kernel(format!("remove {entry:?}"))(e)),
            _ => {}
        }
    }
    let missing: Vec<&Entry> = wanted.difference(there).collect();
    for piece in missing.chunks(PIECE) {
        let mut batch = Batch::default();
        piece.iter().for_each(|entry| entry.add(&mut batch, device));
        socket
            .talk(&mut batch)
            .map_err(kernel("add the routes to peers"))?;
    }
    Ok(there != wanted)
}

fn is_gone(error: &crate::NetlinkError) -> bool {
    [Errno::NOENT, Errno::SRCH, Errno::ADDRNOTAVAIL]
        .iter()
        .any(|errno| error.is(*errno))
}

impl Entry {
    fn add(&self, batch: &mut Batch, device: u32) {
        match *self {
            Self::Address(address, prefix) => {
                link::add_address(batch, device, address.into(), prefix);
            }
            Self::Way(to, gateway) => route_to(to, gateway, device).add(batch),
            _ => self.say(batch, neighbour::SAY, device),
        }
    }

    fn delete(&self, batch: &mut Batch, device: u32) {
        match *self {
            Self::Address(address, prefix) => {
                let mut header = [route::AF_INET, prefix, 0, 0, 0, 0, 0, 0];
                header[4..8].copy_from_slice(&device.to_ne_bytes());
                batch
                    .message(route::DELADDR, 0, &header)
                    .put(route::IFA_LOCAL, &address.octets());
            }
            Self::Way(to, gateway) => route_to(to, gateway, device).delete(batch),
            _ => self.say(batch, neighbour::FORGET, device),
        }
    }

    fn say(&self, batch: &mut Batch, kind: neighbour::Kind, device: u32) {
        match *self {
            Self::Neighbour(address, mac) => {
                neighbour::entry(batch, kind, device, address.into(), mac);
            }
            Self::Place(mac, machine) => forwarding_entry(batch, kind, device, mac, machine),
            Self::Address(..) | Self::Way(..) => {}
        }
    }
}

fn route_to(to: Subnet, gateway: Ipv4Addr, device: u32) -> Route {
    Route {
        to: (IpAddr::V4(to.network()), to.prefix()),
        gateway: Some(gateway.into()),
        interface: device,
        source: None,
        on_link: true,
        table: route::RT_TABLE_MAIN,
    }
}

#[cfg(test)]
mod tests {
    use crate::Peer;

    use super::*;

    #[test]
    fn a_peer_is_three_entries_and_the_route_comes_last() {
        let subnet: Subnet = "10.244.1.0/24".parse().unwrap();
        let config = ClusterOverlayConfig {
            device: "pods".into(),
            table: "pods".into(),
            underlay: Ipv4Addr::new(192, 0, 2, 1),
            subnet: "10.244.0.0/24".parse().unwrap(),
            range: "10.244.0.0/16".parse().unwrap(),
            id: 7,
            port: 8472,
            mtu: 1450,
            peers: BTreeSet::from([Peer::new(subnet, Ipv4Addr::new(192, 0, 2, 2))]),
        };
        let all: Vec<Entry> = wanted(&config).into_iter().collect();
        assert_eq!(all[0], Entry::Address(Ipv4Addr::new(10, 244, 0, 0), 32));
        assert_eq!(all[3], Entry::Way(subnet, Ipv4Addr::new(10, 244, 1, 0)));
        assert_eq!(all.len(), 4);
    }
}
