//! What the network of one run is to be, checked before anything is touched.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{RemoteNames, Subnet, WireGuardConfig};

/// The largest subnet, a /22, has so many bits for endpoints.
const PORT_BITS: u32 = 10;

/// A short mark of one run, in every name that it has on the host: 1 to 8 of
/// `a-z` and `0-9`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tag(String);

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The tag has other characters, or too many.
    #[error("tag {0:?}: 1 to 8 of a-z and 0-9 are allowed")]
    Tag(String),
    /// A bridge has at most 1023 ports, and a node needs some.
    #[error("subnet {0}: a node's subnet is between /22 and /29")]
    SubnetSize(Subnet),
    /// The node's subnet is not part of the cluster's range.
    #[error("subnet {subnet} is not in the range {range}")]
    OutsideRange { subnet: Subnet, range: Subnet },
    /// Nothing works with packets this small or this large.
    #[error("mtu {0}: 576 to 65535 is allowed")]
    Mtu(u32),
}

impl Tag {
    /// The text of the tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the names of all interfaces of this run begin with.
    pub(crate) fn interfaces(&self) -> String {
        format!("st-{}-", self.0)
    }

    /// The name of the bridge.
    pub fn bridge(&self) -> String {
        format!("st-{}-br", self.0)
    }

    /// The name of the overlay's device.
    pub fn overlay(&self) -> String {
        format!("st-{}-vx", self.0)
    }

    /// The name of the encrypted overlay's device.
    pub fn wireguard(&self) -> String {
        format!("st-{}-wg", self.0)
    }

    /// The names of the host's end of an endpoint: the place of its address
    /// in the subnet, in three hexadecimal digits. That leaves two bits: an
    /// endpoint that is started again does not wait until the kernel has
    /// removed what it had before.
    pub(crate) fn ports(&self, index: u32) -> [String; 4] {
        [0, 1, 2, 3].map(|turn| format!("st-{}-{:03x}", self.0, turn << PORT_BITS | index))
    }

    /// Whether this is the name of an endpoint of this run, and of which.
    pub(crate) fn port_index(&self, name: &str) -> Option<u32> {
        let digits = name.strip_prefix(&self.interfaces())?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        (digits.len() == 3).then_some(number & ((1 << PORT_BITS) - 1))
    }

    /// The name of the nftables table.
    pub fn table(&self) -> String {
        format!("strata-{}", self.0)
    }
}

impl FromStr for Tag {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        if (1..=8).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ConfigError::Tag(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Tag {
    type Error = ConfigError;

    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

impl From<Tag> for String {
    fn from(tag: Tag) -> Self {
        tag.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The network of one node.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The mark of this run.
    pub tag: Tag,
    /// The addresses of this node, from /22 to /29.
    pub subnet: Subnet,
    /// The addresses of all nodes together.
    pub range: Subnet,
    /// The size of packets. Default: what the way out carries, less what the
    /// overlay puts around a packet: 50 bytes, 60 with WireGuard.
    pub mtu: Option<u32>,
    /// The resolvers for names that are not ours. Empty: those in
    /// `/etc/resolv.conf`.
    pub dns_upstreams: Vec<SocketAddr>,
    /// The UDP port of the overlay, the same on all nodes.
    pub overlay_port: u16,
    /// The key of this node and where it listens, where the overlay is
    /// encrypted. Default: none.
    pub wireguard: Option<WireGuardConfig>,
    /// Peers without a key are not reached, and do not reach this node.
    /// Default: no.
    pub encrypted_only: bool,
    /// Ports of the host that every pod may reach, by TCP and UDP, besides
    /// names and leases.
    pub host_ports: Vec<u16>,
    /// Ports of Strata's own on other hosts, to which pods begin few connections
    /// in a second. Default: 7700 and 7710.
    pub api_ports: Vec<u16>,
    /// Pods may reach the metadata services of clouds.
    pub metadata: bool,
    /// How many connections the host tracks for one pod, or other endpoint.
    /// Default: an eighth of what it tracks in all, at most 16384.
    pub connections: Option<u32>,
    /// The same for all of them together.
    /// Default: three quarters of what the host tracks.
    pub all_connections: Option<u32>,
    /// Pods of different projects may be on this node also if its kernel cannot
    /// keep apart what is on one bridge.
    pub shared_bridge: bool,
    /// What instances of other nodes are called.
    pub remote_names: RemoteNames,
    /// The directory for what must be remembered. It is made when missing.
    pub state: PathBuf,
}

impl NetworkConfig {
    /// The port that is registered for VXLAN.
    pub const OVERLAY_PORT: u16 = 4789;

    /// A network with everything else by default.
    pub fn new(tag: Tag, subnet: Subnet, range: Subnet, state: impl Into<PathBuf>) -> Self {
        Self {
            tag,
            subnet,
            range,
            mtu: None,
            dns_upstreams: Vec::new(),
            overlay_port: Self::OVERLAY_PORT,
            wireguard: None,
            encrypted_only: false,
            host_ports: Vec::new(),
            api_ports: vec![7700, 7710],
            metadata: false,
            connections: None,
            all_connections: None,
            shared_bridge: false,
            remote_names: RemoteNames::default(),
            state: state.into(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(22..=29).contains(&self.subnet.prefix()) {
            return Err(ConfigError::SubnetSize(self.subnet));
        }
        if !self.range.covers(self.subnet) {
            return Err(ConfigError::OutsideRange {
                subnet: self.subnet,
                range: self.range,
            });
        }
        match self.mtu {
            Some(mtu) if !(576..=65_535).contains(&mtu) => Err(ConfigError::Mtu(mtu)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_an_interface_name() {
        let tag: Tag = "abcdefgh".parse().unwrap();
        for name in [tag.bridge(), tag.overlay(), tag.wireguard()]
            .iter()
            .chain(&tag.ports(0x3ff))
        {
            assert!(name.len() <= 15, "{name}");
        }
        for name in tag.ports(0x3ff) {
            assert_eq!(tag.port_index(&name), Some(0x3ff));
        }
        assert_eq!(tag.port_index(&tag.bridge()), None);
        assert_eq!(tag.port_index(&tag.wireguard()), None);
        assert_eq!(tag.port_index("st-abcdefg-001"), None);
    }

    #[test]
    fn a_bad_tag_is_refused() {
        for text in ["", "abcdefghi", "a-b", "A", "ä"] {
            assert!(text.parse::<Tag>().is_err(), "{text}");
        }
    }
}
