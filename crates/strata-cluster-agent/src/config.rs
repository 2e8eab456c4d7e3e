//! The configuration of the agent. The server writes it, the agent follows it.
//! Fields that are not known are passed over, so that a server may be newer
//! than the agents of its clusters.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strata_network::{Peer, Subnet};

/// The form of the file that this program reads and writes.
pub const VERSION: u32 = 1;

/// What one agent has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// The form of the file: [`VERSION`].
    pub version: u32,
    /// Where the API servers are reached on this machine.
    pub listen: SocketAddr,
    /// The API servers. Connections go to all of them in turn.
    pub servers: Vec<SocketAddr>,
    /// The network of the pods; none where another program makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<PodNetworkConfig>,
    /// How pods are attached to it; none where another program does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniConfig>,
}

/// The network of the pods, as one machine sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodNetworkConfig {
    /// The address of this machine.
    pub address: Ipv4Addr,
    /// The addresses of its pods.
    pub pod_subnet: Subnet,
    /// The addresses of all pods of the cluster.
    pub cluster_subnet: Subnet,
    /// The number of the VXLAN, the same on all machines of the cluster and
    /// another one on those of other clusters.
    pub vni: u32,
    /// Its UDP port.
    pub port: u16,
    /// The size of a pod's packets: that of the machine's less 50 bytes.
    pub mtu: u32,
    /// The other machines. This one among them is passed over.
    #[serde(default)]
    pub peers: Vec<PeerConfig>,
}

/// Another machine of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerConfig {
    pub address: Ipv4Addr,
    /// The addresses of its pods.
    pub pod_subnet: Subnet,
}

/// How pods are attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CniConfig {
    /// The directory in which containerd looks.
    #[serde(rename = "folder")]
    pub dir: PathBuf,
    pub plugins: CniPlugins,
}

/// With what pods are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CniPlugins {
    /// The plugins `bridge`, `host-local` and `portmap`.
    Bridge,
    /// Something that this agent does not know: it writes nothing.
    #[serde(other)]
    Foreign,
}

/// Why a configuration cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not what a server writes.
    #[error("not a configuration of an agent")]
    Form(#[source] serde_json::Error),
    /// It is of a form that this program does not know.
    #[error("version {0} is not known here; {VERSION} is")]
    Version(u32),
    /// The pods of this machine would not be of the cluster.
    #[error("{subnet} is not a part of {range}, the cluster's pod subnet")]
    Outside {
        /// The subnet of a machine.
        subnet: Subnet,
        /// That of the cluster.
        range: Subnet,
    },
    /// Two machines have the same subnet.
    #[error("pod subnet {0} is there twice")]
    Twice(Subnet),
    /// The number of a VXLAN has 24 bits.
    #[error("vni {0} is too large; it has 24 bits")]
    Vni(u32),
    /// Less than IPv6 requires, or more than a packet can have.
    #[error("mtu {0} cannot work; 1280 to 65485 can")]
    Mtu(u32),
}

impl AgentConfig {
    /// Reads a configuration and looks whether it can work.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        let config: Self = serde_json::from_slice(text).map_err(ConfigError::Form)?;
        if config.version != VERSION {
            return Err(ConfigError::Version(config.version));
        }
        if let Some(network) = &config.network {
            network.check()?;
        }
        Ok(config)
    }
}

impl PodNetworkConfig {
    fn check(&self) -> Result<(), ConfigError> {
        if self.vni >= 1 << 24 {
            return Err(ConfigError::Vni(self.vni));
        }
        if !(1280..=65485).contains(&self.mtu) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        let mut known = BTreeSet::new();
        let own = [self.pod_subnet];
        for subnet in own.into_iter().chain(self.others().map(|peer| peer.subnet)) {
            if !self.cluster_subnet.covers(subnet) {
                let range = self.cluster_subnet;
                return Err(ConfigError::Outside { subnet, range });
            }
            if !known.insert(subnet) {
                return Err(ConfigError::Twice(subnet));
            }
        }
        Ok(())
    }

    /// The machines that are not this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = Peer> {
        let this = (self.address, self.pod_subnet);
        self.peers
            .iter()
            .filter(move |peer| (peer.address, peer.pod_subnet) != this)
            .map(|peer| Peer::new(peer.pod_subnet, peer.address))
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{ "version": 1, "listen": "127.0.0.1:7443",
        "servers": ["10.42.0.5:6443", "10.42.0.6:6443"],
        "network": { "address": "10.42.0.7", "podSubnet": "10.244.3.0/24",
            "clusterSubnet": "10.244.0.0/16", "vni": 7443, "port": 8472, "mtu": 1450,
            "peers": [{"address": "10.42.0.5", "podSubnet": "10.244.1.0/24"}] },
        "cni": { "folder": "/etc/cni/net.d", "plugins": "bridge" }, "later": true }"#;

    #[test]
    fn config_round_trips_and_unknown_fields_are_ignored() {
        let config = AgentConfig::parse(TEXT.as_bytes()).unwrap();
        let again = serde_json::to_vec(&config).unwrap();
        assert_eq!(AgentConfig::parse(&again).unwrap(), config);
        let cni = config.cni.unwrap();
        assert_eq!(cni.plugins, CniPlugins::Bridge);
        let other = TEXT.replace("\"bridge\"", "\"cilium\"");
        let cni = AgentConfig::parse(other.as_bytes()).unwrap().cni.unwrap();
        assert_eq!(cni.plugins, CniPlugins::Foreign);
    }

    #[test]
    fn invalid_config_is_refused() {
        for (from, to) in [
            ("\"version\": 1", "\"version\": 2"),
            ("10.244.1.0/24", "10.244.3.0/24"),
            ("10.244.1.0/24", "10.245.1.0/24"),
            ("7443, \"port\"", "16777216, \"port\""),
            ("1450", "145"),
            ("{ \"version\"", "\"version\""),
        ] {
            let text = TEXT.replace(from, to);
            assert!(AgentConfig::parse(text.as_bytes()).is_err(), "{to}");
        }
        let this = TEXT.replace(
            "10.42.0.5\", \"podSubnet\": \"10.244.1",
            "10.42.0.7\", \"podSubnet\": \"10.244.3",
        );
        assert!(
            AgentConfig::parse(this.as_bytes()).is_ok(),
            "this machine itself"
        );
    }

    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        replay::replay(&[("agent_config", |data| {
            let _ = AgentConfig::parse(data);
        })]);
    }
}
