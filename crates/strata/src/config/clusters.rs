//! The `[clusters]` section: how Kubernetes clusters are kept.
//!
//! ```toml
//! [clusters]
//! bundles = "/var/cache/strata/kubernetes"
//! host = "192.0.2.1"
//! first_port = 7800
//! replace_after_seconds = 300
//! snapshot_hours = 6
//! keep_snapshots = 8
//! simulated = false
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use strata_server::operations::ClusterSettings;

/// How Kubernetes clusters are kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClustersTable {
    /// Directory of the Kubernetes bundles. Default: that of `make kubernetes`
    /// in the cache of the user.
    bundles: Option<PathBuf>,
    /// Address of the cluster APIs for clients. Default: the listen address of
    /// the server.
    host: Option<String>,
    /// First port of the cluster APIs. Default: the port of the server plus
    /// 100.
    first_port: Option<u16>,
    /// Seconds a node may be not ready before its machine is replaced; at least
    /// 10. Default: 300.
    replace_after_seconds: Option<u64>,
    /// Hours between snapshots of a cluster; 0 for never. Default: 6.
    snapshot_hours: Option<u64>,
    /// Number of snapshots kept per cluster. Default: 8.
    keep_snapshots: Option<usize>,
    /// Simulates Kubernetes in the server's memory, for trials of the API
    /// without the time and the memory that clusters take: machines are
    /// brought up, and nothing is installed on them. Default: false.
    #[serde(default)]
    simulated: bool,
}

impl ClustersTable {
    /// The directory of all bundles.
    pub(crate) fn bundles(&self) -> PathBuf {
        self.bundles.clone().unwrap_or_else(cache)
    }

    /// Whether no Kubernetes is to run.
    pub(crate) fn simulated(&self) -> bool {
        self.simulated
    }

    /// For a server that listens there.
    pub(crate) fn settings(&self, listen: SocketAddr) -> ClusterSettings {
        let usual = ClusterSettings::default();
        let reached = match listen.ip() {
            ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            ip => ip,
        };
        let host = self.host.clone().unwrap_or_else(|| match reached {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        });
        let seconds = |seconds: u64| Duration::from_secs(seconds);
        ClusterSettings {
            bundles: self.bundles(),
            host,
            listen: listen.ip(),
            first_port: self
                .first_port
                .unwrap_or_else(|| listen.port().saturating_add(100)),
            max_wait: self
                .replace_after_seconds
                .map_or(usual.max_wait, |it| seconds(it.max(10))),
            snapshot_every: self
                .snapshot_hours
                .map_or(usual.snapshot_every, |hours| seconds(hours * 3600)),
            keep_snapshots: self.keep_snapshots.unwrap_or(usual.keep_snapshots).max(1),
        }
    }
}

/// `$STRATA_CACHE/kubernetes`, else `~/.cache/strata/kubernetes`.
fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/strata");
    let cache = std::env::var_os("STRATA_CACHE").map_or_else(home, PathBuf::from);
    cache.join("kubernetes")
}
