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
    /// Where `make kubernetes` puts what it builds; the cache of this machine's
    /// user unless told.
    bundles: Option<PathBuf>,
    /// What people reach the APIs of clusters at; where the server listens
    /// unless told.
    host: Option<String>,
    /// The first of the ports for them; the server's and a hundred unless told.
    first_port: Option<u16>,
    /// How long a node may be not ready before its machine is replaced; 300
    /// unless told, at least 10.
    replace_after_seconds: Option<u64>,
    /// How often the state of a cluster is kept; 6 unless told, never when 0.
    snapshot_hours: Option<u64>,
    /// How many snapshots of a cluster are kept; 8 unless told.
    keep_snapshots: Option<usize>,
}

impl ClustersTable {
    /// The folder of all bundles.
    pub(crate) fn bundles(&self) -> PathBuf {
        self.bundles.clone().unwrap_or_else(cache)
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
            patience: self
                .replace_after_seconds
                .map_or(usual.patience, |it| seconds(it.max(10))),
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
