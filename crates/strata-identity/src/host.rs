//! Names and addresses that a certificate vouches for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use rustls_pki_types::DnsName;

use crate::Name;

/// What a server can be reached by: an address or a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Address(IpAddr),
    /// A DNS name, in lower case.
    Dns(Box<str>),
}

/// The text is neither an address nor a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an IP address nor a DNS name")]
pub struct HostError(pub String);

impl Host {
    /// What every server certificate names: this machine, by itself.
    pub(crate) fn loopback() -> [Self; 3] {
        [
            Self::Dns("localhost".into()),
            Self::Address(Ipv4Addr::LOCALHOST.into()),
            Self::Address(Ipv6Addr::LOCALHOST.into()),
        ]
    }

    /// This host, seen from itself: a server there is accepted as whatever a
    /// client expects on its own host.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.to_canonical().is_loopback(),
            Self::Dns(name) => &**name == "localhost" || name.ends_with(".localhost"),
        }
    }

    /// `0.0.0.0` and `::` are listened on, but never reached by.
    pub fn is_unspecified(&self) -> bool {
        matches!(self, Self::Address(address) if address.is_unspecified())
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(text);
        if let Ok(address) = bare.parse() {
            return Ok(Self::Address(address));
        }
        match DnsName::try_from(text) {
            Ok(name) => Ok(Self::Dns(name.as_ref().to_ascii_lowercase().into())),
            Err(_) => Err(HostError(text.chars().take(256).collect())),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Dns(name) => f.pad(name),
        }
    }
}

/// The DNS name that a node's certificate carries for it, whatever its
/// address: `<name>.node.strata.internal`. A joining node chooses its own
/// name, so the name alone would let it vouch for any host of that name;
/// under this suffix it can only ever be a node. `None` when the name does
/// not fit in DNS.
pub fn node_host(name: &Name) -> Option<Host> {
    match format!("{name}.node.strata.internal").parse() {
        Ok(host @ Host::Dns(_)) => Some(host),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tells_addresses_from_names() {
        assert_eq!(
            "[::1]".parse(),
            Ok(Host::Address(Ipv6Addr::LOCALHOST.into()))
        );
        assert_eq!(
            "127.0.0.1".parse(),
            Ok(Host::Address(Ipv4Addr::LOCALHOST.into()))
        );
        assert_eq!("Example.COM".parse(), Ok(Host::Dns("example.com".into())));
        for bad in ["", " ", "a b", "a\0b", "*", "https://x", "a:1", "-"] {
            assert!(bad.parse::<Host>().is_err(), "{bad:?}");
        }
        assert!("0.0.0.0".parse::<Host>().unwrap().is_unspecified());
    }

    #[test]
    fn a_node_cannot_name_itself_into_the_zone_of_another_host() {
        let name: Name = "www.example.com".parse().unwrap();
        let host = node_host(&name).unwrap().to_string();
        assert_eq!(host, "www.example.com.node.strata.internal");
        assert_eq!(node_host(&"x".repeat(64).parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_comes_back(text in ".*") {
            if let Ok(host) = text.parse::<Host>() {
                prop_assert_eq!(host.to_string().parse(), Ok(host));
            }
        }
    }
}
