//! Published ports: `8080:80`, `53:53/udp`, `127.0.0.1:8080:80`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What goes through a port.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A port of the machine that leads to a port of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMapping {
    /// The machine's address it is published on; all of them when none is
    /// given.
    pub host_ip: Option<IpAddr>,
    /// The port of the machine.
    pub host_port: u16,
    /// The port of the pod.
    pub port: u16,
    pub protocol: Protocol,
}

impl PortMapping {
    /// Whether both want the same port of the machine.
    pub fn collides_with(&self, other: &Self) -> bool {
        let same_address = match (self.host_ip, other.host_ip) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => true,
        };
        same_address && self.host_port == other.host_port && self.protocol == other.protocol
    }
}

impl FromStr for PortMapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            let text: String = text.chars().take(80).collect();
            format!(
                "{text:?} is not a port: expected one such as 8080:80, 53:53/udp or 127.0.0.1:8080:80"
            )
        };
        let number = |part: &str| match part.parse::<u16>() {
            Ok(n) if n > 0 && part.bytes().all(|b| b.is_ascii_digit()) => Ok(n),
            _ => Err(bad()),
        };
        let (ports, protocol) = match text.rsplit_once('/') {
            None => (text, Protocol::Tcp),
            Some((ports, "tcp")) => (ports, Protocol::Tcp),
            Some((ports, "udp")) => (ports, Protocol::Udp),
            Some(_) => return Err(bad()),
        };
        let (host, port) = ports.rsplit_once(':').ok_or_else(bad)?;
        let (host_ip, host_port) = match host.rsplit_once(':') {
            None => (None, host),
            Some((ip, host_port)) => {
                let bare = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']'));
                let ip = bare.unwrap_or(ip).parse().map_err(|_| bad())?;
                (Some(ip), host_port)
            }
        };
        Ok(Self {
            host_ip,
            host_port: number(host_port)?,
            port: number(port)?,
            protocol,
        })
    }
}

impl fmt::Display for PortMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host_ip {
            Some(IpAddr::V4(ip)) => write!(f, "{ip}:")?,
            Some(IpAddr::V6(ip)) => write!(f, "[{ip}]:")?,
            None => {}
        }
        write!(f, "{}:{}", self.host_port, self.port)?;
        match self.protocol {
            Protocol::Tcp => Ok(()),
            Protocol::Udp => f.write_str("/udp"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ports_come_back_as_they_were() {
        for text in [
            "8080:80",
            "53:53/udp",
            "127.0.0.1:8080:80",
            "[::1]:8080:80/udp",
        ] {
            assert_eq!(text.parse::<PortMapping>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "80",
            ":80",
            "0:80",
            "80:0",
            "70000:80",
            "80:80/sctp",
            "x:80:80",
            "+1:1",
        ] {
            assert!(bad.parse::<PortMapping>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn same_port_collides_on_the_same_address_only() {
        let port = |text: &str| text.parse::<PortMapping>().unwrap();
        assert!(port("80:1").collides_with(&port("127.0.0.1:80:2")));
        assert!(!port("127.0.0.2:80:1").collides_with(&port("127.0.0.1:80:1")));
        assert!(!port("80:1").collides_with(&port("80:1/udp")));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_survives(text in ".{0,40}") {
            if let Ok(port) = text.parse::<PortMapping>() {
                prop_assert_eq!(port.to_string().parse::<PortMapping>().unwrap(), port);
            }
        }
    }
}
