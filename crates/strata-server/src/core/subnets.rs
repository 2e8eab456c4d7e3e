//! The addresses of all instances, handed out to nodes a /24 at a time.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The addresses of all instances together: a network of IPv4. The default
/// range grows with the number of nodes; one that is configured does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: u32,
    prefix: u8,
    /// The shortest prefix that it grows to.
    widest: u8,
}

impl Range {
    /// The range where none is configured: 10.42.0.0/16 for 256 nodes. It is
    /// doubled whenever there are more, up to 10.0.0.0/10 for 16,384; so it takes
    /// no more of the private addresses than are needed, and every node keeps
    /// the subnet that it has.
    pub const DEFAULT: Self = Self {
        first: u32::from_be_bytes([10, 42, 0, 0]),
        prefix: 16,
        widest: 10,
    };
    /// Of what a node gets.
    const NODE_PREFIX: u8 = 24;

    /// This range as long as it needs to be, and the wider ones that it grows to.
    fn steps(self) -> impl Iterator<Item = Self> {
        (self.widest..=self.prefix)
            .rev()
            .map(move |prefix| self.with_prefix(prefix))
    }

    fn with_prefix(self, prefix: u8) -> Self {
        Self {
            first: self.first & (u32::MAX << (32 - prefix)),
            prefix,
            widest: self.widest.min(prefix),
        }
    }

    /// As wide as it can become.
    pub(crate) fn at_its_widest(self) -> Self {
        self.with_prefix(self.widest)
    }

    /// Every subnet there is to hand out: those of the range as it is first,
    /// then those of each step that it grows by.
    pub(crate) fn subnets(self) -> impl Iterator<Item = String> {
        let narrower = std::iter::once(None).chain(self.steps().map(Some));
        self.steps().zip(narrower).flat_map(|(step, before)| {
            let count = 1u32 << (Self::NODE_PREFIX - step.prefix);
            let bits = (0..count).map(move |i| step.first + (i << 8));
            let new = bits.filter(move |bits| !before.is_some_and(|before| before.covers(*bits)));
            new.map(|bits| format!("{}/{}", Ipv4Addr::from(bits), Self::NODE_PREFIX))
        })
    }

    fn covers(self, bits: u32) -> bool {
        bits & (u32::MAX << (32 - self.prefix)) == self.first
    }

    /// Whether this is one of the subnets to hand out.
    pub(crate) fn has(self, subnet: &str) -> bool {
        subnet_bits(subnet).is_some_and(|bits| self.at_its_widest().covers(bits))
    }

    /// This range, grown so far that it has a subnet.
    pub(crate) fn grown_to(self, subnet: &str) -> Self {
        let Some(bits) = subnet_bits(subnet) else {
            return self;
        };
        let mut steps = self.steps();
        steps.find(|step| step.covers(bits)).unwrap_or(self)
    }
}

/// The first address of a subnet as nodes have them.
fn subnet_bits(subnet: &str) -> Option<u32> {
    let (network, "24") = subnet.split_once('/')? else {
        return None;
    };
    let bits = u32::from(network.parse::<Ipv4Addr>().ok()?);
    (bits & 0xff == 0).then_some(bits)
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            let text: String = text.chars().take(80).collect();
            format!("{text:?} is not a range: expected one such as 10.42.0.0/16, of 8 to 24 bits")
        };
        let (network, prefix) = text.split_once('/').ok_or_else(bad)?;
        let first = u32::from(network.parse::<Ipv4Addr>().map_err(|_| bad())?);
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        if !(8..=24).contains(&prefix) || first & ((1u32 << (32 - prefix)) - 1) != 0 {
            return Err(bad());
        }
        Ok(Self {
            first,
            prefix,
            widest: prefix,
        })
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
    fn range_is_split_into_subnets() {
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
    fn default_range_grows_and_a_configured_one_does_not() {
        let range = Range::DEFAULT;
        let all: Vec<String> = range.subnets().collect();
        assert_eq!(all.len(), 16_384);
        let unique: std::collections::HashSet<&String> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
        assert!(all.iter().all(|subnet| range.has(subnet)));
        assert_eq!((&*all[0], &*all[255]), ("10.42.0.0/24", "10.42.255.0/24"));
        assert_eq!(&*all[256], "10.43.0.0/24");
        for (number, text) in [
            (0, "10.42.0.0/16"),
            (255, "10.42.0.0/16"),
            (256, "10.42.0.0/15"),
            (512, "10.40.0.0/14"),
            (1024, "10.40.0.0/13"),
            (8191, "10.32.0.0/11"),
            (9999, "10.0.0.0/10"),
        ] {
            let grown = range.grown_to(&all[number]);
            assert_eq!(grown.to_string(), text, "{number}");
            // It never shrinks, and stays where it is for what it has.
            assert_eq!(grown.grown_to(&all[0]).to_string(), text);
        }
        let configured: Range = "10.42.0.0/16".parse().unwrap();
        assert_eq!(configured.subnets().count(), 256);
        assert!(!configured.has("10.43.0.0/24"));
        assert_eq!(configured.grown_to("10.43.0.0/24"), configured);
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
