//! How a guest is known on the network.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strata_types::{Error, Label};

/// The address of a NIC: of one NIC, not of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// Takes the six bytes; none when they are the address of a group, or all
    /// zero.
    pub fn new(bytes: [u8; 6]) -> Option<Self> {
        (bytes[0] & 1 == 0 && bytes != [0; 6]).then_some(Self(bytes))
    }

    /// The address of the guest that has this IP address: as unique as that
    /// one is, and the same after every restart.
    pub fn of(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        // The 2 means "given by the owner of the network, not by a vendor".
        Self([0x02, 0x53, a, b, c, d])
    }

    /// The six bytes.
    pub fn bytes(self) -> [u8; 6] {
        self.0
    }
}

impl FromStr for MacAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let mut bytes = [0; 6];
            let mut parts = text.split(':');
            for byte in &mut bytes {
                let part = parts.next().filter(|part| part.len() == 2)?;
                // from_str_radix takes a sign, too.
                if !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                    return None;
                }
                *byte = u8::from_str_radix(part, 16).ok()?;
            }
            parts.next().is_none().then_some(bytes)
        };
        let refuse = |why: &str| {
            let text: String = text.chars().take(40).collect();
            Error::invalid("network.mac", format!("{text:?} {why}"))
        };
        let bytes = parse().ok_or_else(|| refuse("is not like 02:53:0a:00:00:02"))?;
        Self::new(bytes).ok_or_else(|| refuse("is not a unicast MAC address"))
    }
}

impl TryFrom<String> for MacAddress {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(address: MacAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The word for a kernel's command line that sets a fixed address, for guests
/// without a DHCP client. Read by kernels with CONFIG_IP_PNP and by most
/// initramfs tools.
pub fn ip_parameter(
    address: Ipv4Addr,
    prefix: u8,
    gateway: Ipv4Addr,
    hostname: &Label,
    dns: Option<Ipv4Addr>,
) -> String {
    let mask = u32::MAX
        .checked_shl(32 - u32::from(prefix.min(32)))
        .unwrap_or(0);
    let mask = Ipv4Addr::from_bits(mask);
    let dns = dns.map(|dns| format!(":{dns}")).unwrap_or_default();
    format!(
        "ip={address}::{gateway}:{mask}:{}:eth0:off{dns}",
        hostname.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let address: MacAddress = "02:53:0A:00:00:ff".parse().unwrap();
        assert_eq!(address.to_string(), "02:53:0a:00:00:ff");
        assert_eq!(MacAddress::of(Ipv4Addr::new(10, 0, 0, 255)), address);
    }

    #[test]
    fn invalid_mac_address_is_refused() {
        let bad = [
            "",
            "02:53:0a:00:00",
            "02:53:0a:00:00:00:00",
            "2:53:0a:00:00:00",
            "+2:53:0a:00:00:00",
            "02-53-0a-00-00-00",
            "01:00:5e:00:00:01",
            "ff:ff:ff:ff:ff:ff",
            "00:00:00:00:00:00",
        ];
        for text in bad {
            let error = text.parse::<MacAddress>().unwrap_err();
            assert_eq!(error.field(), Some("network.mac"), "{text:?}");
        }
    }

    #[test]
    fn a_fixed_address_is_one_word() {
        let word = |prefix, dns| {
            let [address, gateway] = [2, 1].map(|d| Ipv4Addr::new(10, 1, 0, d));
            ip_parameter(address, prefix, gateway, &"web".parse().unwrap(), dns)
        };
        assert_eq!(
            word(16, None),
            "ip=10.1.0.2::10.1.0.1:255.255.0.0:web:eth0:off"
        );
        let dns = Some(Ipv4Addr::new(9, 9, 9, 9));
        assert_eq!(
            word(32, dns),
            "ip=10.1.0.2::10.1.0.1:255.255.255.255:web:eth0:off:9.9.9.9"
        );
        assert!(word(0, None).contains(":0.0.0.0:"));
    }
}
