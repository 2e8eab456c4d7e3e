//! A block of IPv4 addresses: an address and how many of its bits are fixed.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A block of IPv4 addresses, written `10.42.3.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet {
    network: Ipv4Addr,
    prefix: u8,
}

/// Why a text is no subnet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubnetError {
    /// Not of the form `a.b.c.d/n`.
    #[error("{0:?} is not a subnet: expected one such as 10.42.0.0/24")]
    Form(String),
    /// More bits than an address has.
    #[error("/{0} is too long; an address has 32 bits")]
    Prefix(u8),
    /// Bits of the host are set.
    #[error("{address}/{prefix} has bits beyond its prefix; {network}/{prefix} is meant?")]
    HostBits {
        /// The address as given.
        address: Ipv4Addr,
        /// The bits that count.
        prefix: u8,
        /// The address with the other bits cleared.
        network: Ipv4Addr,
    },
}

impl Subnet {
    /// The block that begins at this address.
    pub fn new(network: Ipv4Addr, prefix: u8) -> Result<Self, SubnetError> {
        if prefix > 32 {
            return Err(SubnetError::Prefix(prefix));
        }
        let cut = Ipv4Addr::from_bits(network.to_bits() & mask(prefix));
        if cut != network {
            return Err(SubnetError::HostBits {
                address: network,
                prefix,
                network: cut,
            });
        }
        Ok(Self { network, prefix })
    }

    /// Its first address.
    pub fn network(self) -> Ipv4Addr {
        self.network
    }

    /// How many bits are fixed.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// The fixed bits as a mask.
    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(mask(self.prefix))
    }

    /// How many addresses it has.
    pub fn size(self) -> u64 {
        1 << (32 - self.prefix)
    }

    /// The address at this place.
    pub fn at(self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits().wrapping_add(index))
    }

    /// The place of an address, when it is in here.
    pub fn index_of(self, address: Ipv4Addr) -> Option<u32> {
        self.contains(address)
            .then(|| address.to_bits() - self.network.to_bits())
    }

    /// Whether an address is in here.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.prefix) == self.network.to_bits()
    }

    /// Whether all of another block is in here.
    pub fn covers(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.network)
    }

    /// The address that the node itself has in it.
    pub fn gateway(self) -> Ipv4Addr {
        self.at(1)
    }

    /// Its last address, the broadcast address.
    pub fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | !mask(self.prefix))
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let form = || SubnetError::Form(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(form)?;
        let address = address.parse().map_err(|_| form())?;
        Self::new(address, prefix.parse().map_err(|_| form())?)
    }
}

impl TryFrom<String> for Subnet {
    type Error = SubnetError;

    fn try_from(text: String) -> Result<Self, SubnetError> {
        text.parse()
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        subnet.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_is_read_and_written() {
        let subnet: Subnet = "10.42.3.0/24".parse().unwrap();
        assert_eq!(subnet.to_string(), "10.42.3.0/24");
        assert_eq!(subnet.gateway(), Ipv4Addr::new(10, 42, 3, 1));
        assert_eq!(subnet.broadcast(), Ipv4Addr::new(10, 42, 3, 255));
        assert!(subnet.contains(Ipv4Addr::new(10, 42, 3, 9)));
        assert_eq!(subnet.index_of(Ipv4Addr::new(10, 42, 4, 0)), None);
        assert!("10.42.0.0/16".parse::<Subnet>().unwrap().covers(subnet));
        assert!("0.0.0.0/0".parse::<Subnet>().unwrap().covers(subnet));
    }

    #[test]
    fn invalid_subnet_is_refused() {
        for text in ["10.42.0.0", "10.42.0.1/24", "10.42.0.0/33", "x/8", ""] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }
}
