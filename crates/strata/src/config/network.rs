//! The `[network]` section: how pods and virtual machines are connected.
//!
//! ```toml
//! [network]
//! range = "10.42.0.0/16"
//! subnet = "10.42.7.0/24"
//! mtu = 1400
//! dns = ["192.0.2.53:53"]
//! address = "192.0.2.7"
//! host_ports = [5000]
//! metadata = false
//! overlay_encryption = "auto"
//! ```

use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;
use strata_node::{NetworkOptions, OverlayEncryption, Subnet};

/// How pods and virtual machines are connected.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkTable {
    /// Address range of all nodes. Default: 10.42.0.0/16.
    range: Option<String>,
    /// Subnet of this node, /22 to /29 of the range. Default: a /24 that no
    /// route of this host covers, chosen once and stored.
    subnet: Option<String>,
    /// The size of packets. Default: what the way out carries, less what the
    /// overlay between nodes puts around a packet: 60 bytes with WireGuard, 50
    /// without.
    mtu: Option<u32>,
    /// Upstream DNS servers, as ADDRESS:PORT. Default: those of
    /// /etc/resolv.conf.
    #[serde(default)]
    dns: Vec<SocketAddr>,
    /// Overlay address of this node. Default: the address that the server sees.
    pub(super) address: Option<Ipv4Addr>,
    /// Ports of this machine's own services that pods may reach, by TCP and
    /// UDP. Default: none; names and leases are always answered, and machines
    /// inside the machine reach all ports.
    #[serde(default)]
    host_ports: Vec<u16>,
    /// Pods may reach the metadata services of clouds, such as 169.254.169.254.
    /// Default: false.
    #[serde(default)]
    metadata: bool,
    /// How many connections the kernel tracks for one pod, 16 to 1048576.
    /// Default: an eighth of nf_conntrack_max, at most 16384.
    pod_connections: Option<u32>,
    /// Pods of different projects may be on this machine also if its kernel has
    /// no nftables for bridges, so that they reach each other. Default: false.
    #[serde(default)]
    allow_shared_bridge: bool,
    /// Whether what is sent to other nodes is encrypted, by the kernel's
    /// WireGuard. Default: "auto".
    #[serde(default)]
    overlay_encryption: EncryptionWord,
}

/// Whether what is sent to other nodes is encrypted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncryptionWord {
    /// With every node that can; in the clear, with a warning, with others.
    #[default]
    Auto,
    /// With every node that can; others are not reached.
    Required,
    /// With none.
    Off,
}

impl From<EncryptionWord> for OverlayEncryption {
    fn from(word: EncryptionWord) -> Self {
        match word {
            EncryptionWord::Auto => Self::Auto,
            EncryptionWord::Required => Self::Required,
            EncryptionWord::Off => Self::Off,
        }
    }
}

impl NetworkTable {
    pub(super) fn options(self) -> Result<NetworkOptions, String> {
        let parse = |key: &str, text: &str| {
            let bad = |error| format!("[network] {key} {text:?}: {error}");
            text.parse::<Subnet>().map_err(bad)
        };
        let range = self.range.as_deref();
        if let Some(most) = self.pod_connections
            && !(16..=1 << 20).contains(&most)
        {
            return Err("network.pod_connections: 16 to 1048576 are allowed".into());
        }
        let configured_range = range.map(|text| parse("range", text)).transpose()?;
        Ok(NetworkOptions {
            range: match configured_range {
                Some(range) => range,
                None => parse("range", NetworkOptions::DEFAULT_RANGE)?,
            },
            configured_range,
            subnet: self
                .subnet
                .as_deref()
                .map(|text| parse("subnet", text))
                .transpose()?,
            mtu: self.mtu,
            dns_upstreams: self.dns,
            host_ports: self.host_ports,
            api_ports: Vec::new(),
            metadata: self.metadata,
            pod_connections: self.pod_connections,
            allow_shared_bridge: self.allow_shared_bridge,
            overlay_encryption: self.overlay_encryption.into(),
        })
    }
}
