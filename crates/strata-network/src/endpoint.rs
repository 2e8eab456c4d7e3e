//! What is attached to the network: a pod or a VM, its address, and the
//! ports that the host passes on to it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::Subnet;

/// A pod or a VM in the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its name, by which others on the node find it.
    pub name: String,
    /// Further names. One that another endpoint has is that one's until it
    /// goes.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Its address, from [`crate::Network::lease`].
    pub address: Ipv4Addr,
    /// What the host passes on to it.
    #[serde(default)]
    pub ports: Vec<PublishedPort>,
    /// The project that owns it, which decides what it reaches.
    #[serde(default)]
    pub owner: Owner,
}

/// Whose an endpoint is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// The node's own: it belongs with the default project.
    #[default]
    Node,
    Project(String),
    /// A machine that may be a node itself: it belongs with the default
    /// project, connects to the server, and sends packets of an overlay.
    Machine,
}

impl Owner {
    /// The project it belongs with.
    pub(crate) fn project(&self) -> &str {
        match self {
            Self::Project(name) => name,
            Self::Node | Self::Machine => DEFAULT_PROJECT,
        }
    }
}

/// The project of what is of none.
pub const DEFAULT_PROJECT: &str = "default";

impl Endpoint {
    /// The name it has for itself: the first label of its first alias, which is
    /// what people call it; its own where it has none.
    pub fn host_name(&self) -> &str {
        let alias = self.aliases.first().map_or(&*self.name, |alias| alias);
        alias.split('.').next().unwrap_or(alias)
    }

    /// Its hardware address, which follows from the address: the same on
    /// every start, so that neighbours need not learn again.
    pub fn mac(&self) -> Mac {
        Mac::of(self.address)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// That of an endpoint or a bridge.
    pub(crate) fn of(address: Ipv4Addr) -> Self {
        Self::local(0x02, address)
    }

    /// That of the overlay's device on the node with this subnet. It follows
    /// from the subnet, so that nodes need not exchange it.
    pub(crate) fn of_overlay(subnet: Subnet) -> Self {
        Self::local(0x06, subnet.network())
    }

    /// `first` has the bit of addresses that no maker of NICs gives out.
    fn local(first: u8, address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        Self([first, b's', a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The IPv6 address that goes with an IPv4 one: a unique local /64 for each
/// node, made of its subnet, and the place in the subnet below it.
pub(crate) fn ipv6_of(subnet: Subnet, address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = subnet.network().octets();
    let index = subnet.index_of(address).unwrap_or(0) as u16;
    let words = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    Ipv6Addr::new(0xfd73, 0x7472, words[0], words[1], 0, 0, 0, index)
}

/// What all of these IPv6 addresses begin with, on every node.
pub(crate) const IPV6_RANGE: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd73, 0x7472, 0, 0, 0, 0, 0, 0), 32);

/// TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Its number in IP.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A port of the host that is passed on to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PublishedPort {
    /// The address of the host it is passed on from; all when none.
    #[serde(default)]
    pub host_ip: Option<IpAddr>,
    /// The port of the host.
    pub host_port: u16,
    /// The port of the endpoint.
    pub port: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host_ip {
            Some(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}/{}", self.host_port, self.protocol),
            Some(ip) => write!(f, "{ip}:{}/{}", self.host_port, self.protocol),
            None => write!(f, "{}/{}", self.host_port, self.protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_is_what_people_call_it() {
        let mut endpoint = Endpoint {
            name: "i-0123".into(),
            aliases: Vec::new(),
            address: Ipv4Addr::new(10, 42, 3, 7),
            ports: Vec::new(),
            owner: Default::default(),
        };
        assert_eq!(endpoint.host_name(), "i-0123");
        endpoint.aliases = vec!["db.shop".into(), "db".into()];
        assert_eq!(endpoint.host_name(), "db");
    }

    #[test]
    fn the_other_addresses_follow_from_the_first() {
        let subnet: Subnet = "10.42.3.0/24".parse().unwrap();
        let endpoint = Endpoint {
            name: "web".into(),
            aliases: Vec::new(),
            address: Ipv4Addr::new(10, 42, 3, 7),
            ports: Vec::new(),
            owner: Default::default(),
        };
        assert_eq!(endpoint.mac().to_string(), "02:73:0a:2a:03:07");
        let ipv6 = ipv6_of(subnet, endpoint.address);
        assert_eq!(ipv6.to_string(), "fd73:7472:a2a:300::7");
    }
}
