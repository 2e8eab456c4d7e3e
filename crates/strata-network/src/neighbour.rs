//! The endpoint behind an address, set once instead of being resolved. Hardware
//! addresses follow from addresses here, so they need not be resolved, and
//! entries that are set do not count: the kernel keeps one table of resolved
//! ones for all namespaces together, 1024 by default, which a few hundred pods
//! that talk to the gateway and to each other would fill.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;

use crate::endpoint::ipv6_of;
use crate::link::{family_of, octets};
use crate::netlink::{Batch, flag, route};
use crate::network::Inner;
use crate::{Endpoint, Mac};

/// Kind and flags of a message.
pub(crate) type Kind = (u16, u16);

/// Makes an entry, or changes the one that is there.
pub(crate) const SAY: Kind = (route::NEWNEIGH, flag::CREATE | flag::REPLACE);
/// Takes an entry away.
pub(crate) const FORGET: Kind = (route::DELNEIGH, 0);

/// `struct ndmsg`.
pub(crate) fn header(family: u8, device: u32, flags: u8) -> [u8; route::NEIGHBOUR_HEADER] {
    let mut header = [0; route::NEIGHBOUR_HEADER];
    header[0] = family;
    header[4..8].copy_from_slice(&device.to_ne_bytes());
    header[8..10].copy_from_slice(&route::NUD_PERMANENT.to_ne_bytes());
    header[10] = flags;
    header
}

/// An entry of a device.
pub(crate) fn entry(batch: &mut Batch, kind: Kind, device: u32, address: IpAddr, mac: Mac) {
    let header = header(family_of(address), device, 0);
    batch
        .message(kind.0, kind.1, &header)
        .put(route::NDA_DST, &octets(address))
        .put(route::NDA_LLADDR, &mac.0);
}

impl Inner {
    /// An address of the subnet, and the other one that goes with it.
    fn both(&self, address: Ipv4Addr) -> impl Iterator<Item = IpAddr> {
        let other = self.ipv6.then(|| ipv6_of(self.config.subnet, address));
        [Some(IpAddr::V4(address)), other.map(IpAddr::V6)]
            .into_iter()
            .flatten()
    }

    /// Adds the gateway to an endpoint's neighbours.
    pub(crate) fn say_gateway(&self, batch: &mut Batch, inside: u32) {
        let gateway = self.config.subnet.gateway();
        for address in self.both(gateway) {
            entry(batch, SAY, inside, address, Mac::of(gateway));
        }
    }

    /// Adds an endpoint to the host's neighbours.
    pub(crate) fn say_endpoint(&self, batch: &mut Batch, endpoint: &Endpoint) {
        let bridge = self.bridge.load(Ordering::Acquire);
        for address in self.both(endpoint.address) {
            entry(batch, SAY, bridge, address, endpoint.mac());
        }
    }

    /// Removes an endpoint from the host's neighbours: a sender to it receives
    /// an error at once.
    pub(crate) fn forget_endpoint(&self, endpoint: &Endpoint) {
        let bridge = self.bridge.load(Ordering::Acquire);
        let mut links = self.links();
        for address in self.both(endpoint.address) {
            let mut batch = Batch::default();
            entry(&mut batch, FORGET, bridge, address, endpoint.mac());
            // Not there is as good.
            let _ = links.talk(&mut batch);
        }
    }
}
