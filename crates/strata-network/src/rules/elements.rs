//! What is in the sets and maps of the table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::link::octets;
use crate::netlink::{Batch, flag, nft};
use crate::{Endpoint, Mac, PublishedPort, Subnet};

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
    /// Where to go on for each IPv4 address that sends: the chain of its
    /// project.
    From4,
    /// The same for IPv6 addresses.
    From6,
    /// IPv4 addresses of projects other than the default one.
    Owned4,
    /// Their IPv6 addresses.
    Owned6,
    /// Projects, and the IPv4 addresses that each may reach.
    Reach4,
    /// Projects, and the IPv6 addresses that each may reach.
    Reach6,
    /// IPv4 addresses of machines that may be nodes.
    Machines4,
    /// Their IPv6 addresses.
    Machines6,
    /// Ports of the host that every pod may reach.
    HostPorts,
    /// Ports of Strata's own on other hosts.
    ApiPorts,
    /// Hardware addresses, and the IPv4 address that each sends from.
    Pins4,
    /// Hardware addresses, and the IPv6 address that each sends from.
    Pins6,
    /// On the bridge: ports, with the hardware address and the IPv4 address that
    /// each sends from.
    BridgePins4,
    /// The same with IPv6 addresses.
    BridgePins6,
    /// On the bridge: where to go on for each port that sends.
    BridgeFrom,
    /// On the bridge: all ports of endpoints.
    BridgePorts,
    /// On the bridge: projects, and the ports that each may reach.
    BridgeReach,
    /// On the bridge: projects, and the ports that each may answer, and not
    /// open connections to.
    BridgeAnswers,
}

/// How a set is made: the types are for readers of the output of `nft`.
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
            Self::From4 | Self::BridgeFrom => "from",
            Self::From6 => "from6",
            Self::Owned4 => "owned",
            Self::Owned6 => "owned6",
            Self::Reach4 | Self::BridgeReach => "reach",
            Self::Reach6 => "reach6",
            Self::BridgePorts => "ports",
            Self::Machines4 => "machines",
            Self::Machines6 => "machines6",
            Self::HostPorts => "host-ports",
            Self::ApiPorts => "api-ports",
            Self::Pins4 | Self::BridgePins4 => "pins",
            Self::Pins6 | Self::BridgePins6 => "pins6",
            Self::BridgeAnswers => "answers",
        }
    }

    /// The table it is in: that of packets, or that of the bridge's frames.
    pub(crate) fn family(self) -> u8 {
        match self {
            Self::BridgeFrom
            | Self::BridgePorts
            | Self::BridgeReach
            | Self::BridgeAnswers
            | Self::BridgePins4
            | Self::BridgePins6 => nft::NFPROTO_BRIDGE,
            _ => nft::NFPROTO_INET,
        }
    }
}

/// All sets, with types and lengths of what is in them.
pub(crate) fn element_sets() -> [SetShape; 24] {
    const IPV4: u32 = 7;
    const IPV6: u32 = 8;
    const HARDWARE: u32 = 9;
    const PROTOCOL: u32 = 12;
    const PORT: u32 = 13;
    const MARK: u32 = 19;
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
    let verdicts = |name, key| SetShape {
        name,
        key,
        data: Some((nft::VERDICTS, 16)),
        order: None,
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
        verdicts(SetName::From4, (IPV4, 4)),
        verdicts(SetName::From6, (IPV6, 16)),
        set(SetName::Owned4, (IPV4, 4), 2),
        set(SetName::Owned6, (IPV6, 16), 2),
        set(SetName::Reach4, (joined(&[MARK, IPV4]), 8), 1),
        set(SetName::Reach6, (joined(&[MARK, IPV6]), 20), 1),
        set(SetName::Machines4, (IPV4, 4), 2),
        set(SetName::Machines6, (IPV6, 16), 2),
        set(SetName::HostPorts, (PORT, 2), 2),
        set(SetName::ApiPorts, (PORT, 2), 2),
        set(SetName::Pins4, (joined(&[HARDWARE, IPV4]), 12), 2),
        set(SetName::Pins6, (joined(&[HARDWARE, IPV6]), 24), 2),
        set(
            SetName::BridgePins4,
            (joined(&[INTERFACE, HARDWARE, IPV4]), 28),
            1,
        ),
        set(
            SetName::BridgePins6,
            (joined(&[INTERFACE, HARDWARE, IPV6]), 40),
            1,
        ),
        verdicts(SetName::BridgeFrom, (INTERFACE, 16)),
        set(SetName::BridgePorts, (INTERFACE, 16), 1),
        set(SetName::BridgeReach, (joined(&[MARK, INTERFACE]), 20), 1),
        set(SetName::BridgeAnswers, (joined(&[MARK, INTERFACE]), 20), 1),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Element {
    pub(super) set: SetName,
    key: Vec<u8>,
    data: Option<Vec<u8>>,
}

impl Element {
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

    fn of(set: SetName, key: &[u8], data: Option<&[u8]>) -> Self {
        Self {
            set,
            key: key.to_vec(),
            data: data.map(<[u8]>::to_vec),
        }
    }

    /// What is sent from an address is filtered in the chain of a project.
    pub(crate) fn sends_from(address: IpAddr, project: u32) -> Self {
        let set = match address {
            IpAddr::V4(_) => SetName::From4,
            IpAddr::V6(_) => SetName::From6,
        };
        Self::of(set, &octets(address), Some(&project.to_ne_bytes()))
    }

    /// An address is of a project other than the default one.
    pub(crate) fn owned(address: IpAddr) -> Self {
        let set = match address {
            IpAddr::V4(_) => SetName::Owned4,
            IpAddr::V6(_) => SetName::Owned6,
        };
        Self::of(set, &octets(address), None)
    }

    /// A project may reach an address.
    pub(crate) fn reach(project: u32, address: IpAddr) -> Self {
        let set = match address {
            IpAddr::V4(_) => SetName::Reach4,
            IpAddr::V6(_) => SetName::Reach6,
        };
        let key = [project.to_ne_bytes().to_vec(), octets(address)].concat();
        Self::of(set, &key, None)
    }

    /// The same three for a port of the bridge.
    pub(crate) fn port_sends(name: &str, project: u32) -> [Self; 2] {
        let (key, data) = (padded(name), project.to_ne_bytes());
        [
            Self::of(SetName::BridgeFrom, &key, Some(&data)),
            Self::of(SetName::BridgePorts, &key, None),
        ]
    }

    /// A project may reach a port of the bridge.
    pub(crate) fn reach_port(project: u32, name: &str) -> Self {
        Self::of(SetName::BridgeReach, &of_project(project, name), None)
    }

    /// A project may answer what comes from a port of the bridge.
    pub(crate) fn answer_port(project: u32, name: &str) -> Self {
        Self::of(SetName::BridgeAnswers, &of_project(project, name), None)
    }

    /// That a machine, which may be a node, is behind an address.
    pub(crate) fn machine(address: IpAddr) -> Self {
        let set = match address {
            IpAddr::V4(_) => SetName::Machines4,
            IpAddr::V6(_) => SetName::Machines6,
        };
        Self::of(set, &octets(address), None)
    }

    /// The address that a hardware address sends from.
    pub(crate) fn pin(mac: Mac, address: IpAddr) -> Self {
        let set = match address {
            IpAddr::V4(_) => SetName::Pins4,
            IpAddr::V6(_) => SetName::Pins6,
        };
        let key = [mac.0.to_vec(), vec![0; 2], octets(address)].concat();
        Self::of(set, &key, None)
    }

    /// The hardware address and the address that a port of the bridge sends
    /// from.
    pub(crate) fn port_pin(name: &str, mac: Mac, address: IpAddr) -> Self {
        let set = match address {
            IpAddr::V4(_) => SetName::BridgePins4,
            IpAddr::V6(_) => SetName::BridgePins6,
        };
        let hardware = [mac.0.to_vec(), vec![0; 2]].concat();
        let key = [padded(name).to_vec(), hardware, octets(address)].concat();
        Self::of(set, &key, None)
    }

    /// A port of the host that every pod may reach.
    pub(crate) fn host_port(port: u16) -> Self {
        Self::of(SetName::HostPorts, &port.to_be_bytes(), None)
    }

    /// A port of Strata's own on other hosts.
    pub(crate) fn api_port(port: u16) -> Self {
        Self::of(SetName::ApiPorts, &port.to_be_bytes(), None)
    }

    /// The chain where it goes on, where it is one of those.
    fn goes_to(&self) -> Option<String> {
        let verdicts = [SetName::From4, SetName::From6, SetName::BridgeFrom];
        let data = self
            .data
            .as_deref()
            .filter(|_| verdicts.contains(&self.set))?;
        let project = u32::from_ne_bytes(data.try_into().ok()?);
        Some(chain_of_project(project))
    }

    /// Whether it is in the table of the bridge's frames.
    pub(crate) fn is_of_bridge(&self) -> bool {
        self.set.family() == nft::NFPROTO_BRIDGE
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

fn of_project(project: u32, name: &str) -> Vec<u8> {
    let mut key = project.to_ne_bytes().to_vec();
    key.extend(padded(name));
    key
}

/// The chain that filters what a project sends.
pub(super) fn chain_of_project(project: u32) -> String {
    format!("from-{project}")
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
                .message(kind, flags, &[piece[0].set.family(), 0, 0, 0])
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
            one.nest(nft::ELEM_DATA, |value| match element.goes_to() {
                Some(chain) => drop(value.nest(nft::DATA_VERDICT, |verdict| {
                    verdict
                        .put(nft::VERDICT_CODE, &nft::GOTO.to_be_bytes())
                        .put_text(nft::VERDICT_CHAIN, &chain);
                })),
                None => drop(value.put(nft::DATA_VALUE, data)),
            });
        }
    });
}
