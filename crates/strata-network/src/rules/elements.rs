//! What is in the sets and maps of the table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{Batch, flag, nft};
use crate::{Endpoint, PublishedPort, Subnet};

use super::expression::padded;

/// Which set or map an element is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SetName {
    /// Ports of any IPv4 address of the host.
    Any4,
    /// Ports of one IPv4 address of the host.
    At4,
    /// Ports of any IPv6 address of the host.
    Any6,
    /// Ports of one IPv6 address of the host.
    At6,
    /// Other nodes, by their address.
    Peers,
    /// Interfaces on which forwarding is on because of us.
    Uplinks,
}

/// How a set is made: the types are for people who look at it with `nft`.
pub(crate) struct SetShape {
    pub(super) name: SetName,
    pub(super) key: (u32, u32),
    pub(super) data: Option<(u32, u32)>,
    /// The order of the bytes of a key; `nft` shows nonsense without it.
    pub(super) order: Option<[u8; 6]>,
}

impl SetName {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Any4 => "ports4",
            Self::At4 => "ports4-at",
            Self::Any6 => "ports6",
            Self::At6 => "ports6-at",
            Self::Peers => "peers",
            Self::Uplinks => "uplinks",
        }
    }
}

/// All sets, with types and lengths of what is in them.
pub(crate) fn element_sets() -> [SetShape; 6] {
    const IPV4: u32 = 7;
    const IPV6: u32 = 8;
    const PROTOCOL: u32 = 12;
    const PORT: u32 = 13;
    const INTERFACE: u32 = 41;
    let joined = |types: &[u32]| types.iter().fold(0, |all, one| all << 6 | one);
    let map = |name, key: (&[u32], u32), data: (&[u32], u32)| SetShape {
        name,
        key: (joined(key.0), key.1),
        data: Some((joined(data.0), data.1)),
        order: None,
    };
    let set = |name, key, order| SetShape {
        name,
        key,
        data: None,
        order: Some([0, 4, order, 0, 0, 0]),
    };
    let to4: (&[u32], u32) = (&[IPV4, PORT], 8);
    let to6: (&[u32], u32) = (&[IPV6, PORT], 20);
    [
        map(SetName::Any4, (&[PROTOCOL, PORT], 8), to4),
        map(SetName::At4, (&[IPV4, PROTOCOL, PORT], 12), to4),
        map(SetName::Any6, (&[PROTOCOL, PORT], 8), to6),
        map(SetName::At6, (&[IPV6, PROTOCOL, PORT], 24), to6),
        set(SetName::Peers, (IPV4, 4), 2),
        set(SetName::Uplinks, (INTERFACE, 16), 1),
    ]
}

/// One element.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Element {
    pub(super) set: SetName,
    key: Vec<u8>,
    data: Option<Vec<u8>>,
}

impl Element {
    /// Another node.
    pub(crate) fn peer(underlay: Ipv4Addr) -> Self {
        Self {
            set: SetName::Peers,
            key: underlay.octets().to_vec(),
            data: None,
        }
    }

    /// An interface on which forwarding is on because of us.
    pub(crate) fn uplink(name: &str) -> Self {
        Self {
            set: SetName::Uplinks,
            key: padded(name).to_vec(),
            data: None,
        }
    }

    /// What an endpoint publishes.
    pub(crate) fn of_endpoint(endpoint: &Endpoint, subnet: Subnet, ipv6: bool) -> Vec<Self> {
        let to4 = endpoint.address;
        let to6 = crate::endpoint::ipv6_of(subnet, endpoint.address);
        let mut all = Vec::new();
        for port in &endpoint.ports {
            match port.host_ip {
                None => {
                    all.push(published(SetName::Any4, *port, &to4.octets()));
                    if ipv6 {
                        all.push(published(SetName::Any6, *port, &to6.octets()));
                    }
                }
                Some(ip) if ip.is_unspecified() => {
                    all.push(match ip {
                        IpAddr::V4(_) => published(SetName::Any4, *port, &to4.octets()),
                        IpAddr::V6(_) => published(SetName::Any6, *port, &to6.octets()),
                    });
                }
                Some(IpAddr::V4(_)) => all.push(published(SetName::At4, *port, &to4.octets())),
                Some(IpAddr::V6(_)) => all.push(published(SetName::At6, *port, &to6.octets())),
            }
        }
        all
    }
}

fn published(set: SetName, port: PublishedPort, to: &[u8]) -> Element {
    let word = |port: u16| {
        let [a, b] = port.to_be_bytes();
        [a, b, 0, 0]
    };
    let mut key = match (set, port.host_ip) {
        (SetName::At4, Some(IpAddr::V4(ip))) => Ipv4Addr::octets(&ip).to_vec(),
        (SetName::At6, Some(IpAddr::V6(ip))) => Ipv6Addr::octets(&ip).to_vec(),
        _ => Vec::new(),
    };
    key.extend([port.protocol.number(), 0, 0, 0]);
    key.extend(word(port.host_port));
    let mut data = to.to_vec();
    data.extend(word(port.port));
    Element {
        set,
        key,
        data: Some(data),
    }
}

/// Adds elements to their sets.
pub(super) fn add(batch: &mut Batch, table: &str, elements: &[Element]) {
    write(batch, table, elements, nft::NEWSETELEM, flag::CREATE);
}

/// Takes elements out of their sets.
pub(super) fn delete(batch: &mut Batch, table: &str, elements: &[Element]) {
    write(batch, table, elements, nft::DELSETELEM, 0);
}

/// One message holds at most 64 KiB, so large sets take several.
fn write(batch: &mut Batch, table: &str, elements: &[Element], kind: u16, flags: u16) {
    for same in elements.chunk_by(|a, b| a.set == b.set) {
        for piece in same.chunks(256) {
            batch
                .message(kind, flags, &[nft::NFPROTO_INET, 0, 0, 0])
                .put_text(nft::ELEMS_TABLE, table)
                .put_text(nft::ELEMS_SET, piece[0].set.text())
                .nest(nft::ELEMS_ELEMENTS, |list| {
                    for element in piece {
                        write_one(list, element, kind == nft::NEWSETELEM);
                    }
                });
        }
    }
}

fn write_one(list: &mut Batch, element: &Element, with_data: bool) {
    list.nest(nft::LIST_ELEM, |one| {
        one.nest(nft::ELEM_KEY, |key| {
            key.put(nft::DATA_VALUE, &element.key);
        });
        if let Some(data) = element.data.as_ref().filter(|_| with_data) {
            one.nest(nft::ELEM_DATA, |value| {
                value.put(nft::DATA_VALUE, data);
            });
        }
    });
}
