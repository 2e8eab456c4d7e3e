//! The `[network]` section: how pods and virtual machines are connected.
//!
//! ```toml
//! [network]
//! range = "10.42.0.0/16"
//! subnet = "10.42.7.0/24"
//! mtu = 1400
//! dns = ["192.0.2.53:53"]
//! address = "192.0.2.7"
//! ```

use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;
use strata_node::{NetworkOptions, Subnet};

/// How pods and virtual machines are connected.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkTable {
    /// The addresses of all nodes together; 10.42.0.0/16 unless told.
    range: Option<String>,
    /// The addresses of this node, /22 to /29 of the range. Unless told, a
    /// /24 that no route of this machine touches is chosen once and kept.
    subnet: Option<String>,
    /// The size of packets; what the way out carries, less the 50 bytes that
    /// the overlay between nodes needs, unless told.
    mtu: Option<u32>,
    /// Who answers for names that are not ours, as ADDRESS:PORT; whom
    /// /etc/resolv.conf names unless told.
    #[serde(default)]
    dns: Vec<SocketAddr>,
    /// Where other nodes send what is for pods of this one; the address that
    /// the server sees unless told.
    pub(super) address: Option<Ipv4Addr>,
}

impl NetworkTable {
    pub(super) fn options(self) -> Result<NetworkOptions, String> {
        let parse = |key: &str, text: &str| {
            let bad = |error| format!("[network] {key} {text:?}: {error}");
            text.parse::<Subnet>().map_err(bad)
        };
        let range = self
            .range
            .as_deref()
            .unwrap_or(NetworkOptions::DEFAULT_RANGE);
        Ok(NetworkOptions {
            range: parse("range", range)?,
            subnet: self
                .subnet
                .as_deref()
                .map(|text| parse("subnet", text))
                .transpose()?,
            mtu: self.mtu,
            dns_upstreams: self.dns,
        })
    }
}
