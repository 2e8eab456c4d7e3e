//! Where a connection comes from, as one party: an IPv4 address, or the /64 of
//! an IPv6 address, since the owner of one address of a /64 has all of them.
//!
//! The loopback is a source like any other. Callers behind it share the bound
//! on handshakes and unauthenticated connections, which is why a full source
//! closes its oldest silent connection instead of refusing the newest;
//! authenticated callers are counted by their credential. Pods reach the host
//! by the bridge with addresses of their own, so each is a source of its own.

use std::net::IpAddr;

/// One source of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    V4(u32),
    /// The first 64 bits.
    V6(u64),
    /// Of this host, not by an address.
    Local,
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => {
                let prefix = address.to_bits() >> 64;
                Self::V6(u64::try_from(prefix).unwrap_or(u64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::from(text.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn ipv6_source_is_its_64_and_ipv4_source_its_address() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1:2:3"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
    }
}
