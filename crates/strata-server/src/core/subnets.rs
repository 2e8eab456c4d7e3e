//! The addresses of all instances, handed out to nodes a /24 at a time.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The addresses of all instances together: a network of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: u32,
    prefix: u8,
}

impl Range {
    /// The range unless told.
    pub const DEFAULT: Self = Self {
        first: u32::from_be_bytes([10, 42, 0, 0]),
        prefix: 16,
    };
    /// Of what a node gets.
    const NODE_PREFIX: u8 = 24;

    /// Every subnet there is to hand out, in order.
    pub(crate) fn subnets(self) -> impl Iterator<Item = String> {
        let count = 1u32 << (Self::NODE_PREFIX - self.prefix);
        let network = move |i: u32| Ipv4Addr::from(self.first + (i << 8));
        (0..count).map(move |i| format!("{}/{}", network(i), Self::NODE_PREFIX))
    }

    /// Whether this is one of the subnets to hand out.
    pub(crate) fn has(self, subnet: &str) -> bool {
        let Some((network, "24")) = subnet.split_once('/') else {
            return false;
        };
        let Ok(network) = network.parse::<Ipv4Addr>() else {
            return false;
        };
        let bits = u32::from(network);
        let size = 1u32 << (32 - self.prefix);
        bits & 0xff == 0 && bits >= self.first && bits - self.first < size
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            let text: String = text.chars().take(80).collect();
            format!("{text:?} is no range such as 10.42.0.0/16, of 8 to 24 bits")
        };
        let (network, prefix) = text.split_once('/').ok_or_else(bad)?;
        let first = u32::from(network.parse::<Ipv4Addr>().map_err(|_| bad())?);
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        if !(8..=24).contains(&prefix) || first & ((1u32 << (32 - prefix)) - 1) != 0 {
            return Err(bad());
        }
        Ok(Self { first, prefix })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.first), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_into_subnets() {
        let range: Range = "10.42.0.0/22".parse().unwrap();
        let all: Vec<_> = range.subnets().collect();
        assert_eq!(
            all,
            [
                "10.42.0.0/24",
                "10.42.1.0/24",
                "10.42.2.0/24",
                "10.42.3.0/24"
            ]
        );
        assert!(all.iter().all(|subnet| range.has(subnet)));
        for other in [
            "10.42.4.0/24",
            "10.42.0.1/24",
            "10.42.0.0/16",
            "x",
            "10.41.255.0/24",
        ] {
            assert!(!range.has(other), "{other}");
        }
        assert_eq!(Range::DEFAULT.to_string(), "10.42.0.0/16");
        assert_eq!(Range::DEFAULT.subnets().count(), 256);
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.1/16",
            "10.0.0.0/25",
            "10.0.0.0/7",
            "x/16",
        ] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }

    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        crate::replay::replay(&[("node_range", |data| {
            if let Ok(range) = String::from_utf8_lossy(data).parse::<Range>() {
                assert!(range.subnets().next().is_some_and(|it| range.has(&it)));
            }
        })]);
    }
}
