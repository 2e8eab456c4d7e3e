//! The `[node]` section: what a node reports to its server.
//!
//! ```toml
//! [node]
//! labels = { zone = "a", disk = "ssd" }
//! servers = ["https://10.0.0.2:7700"]
//! pool = "/srv/pool"
//! orphan_grace_seconds = 3600
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use strata_client::Address;

/// Maximum number of labels, and maximum length of a key or value.
const MAX_LABELS: usize = 100;
const MAX_LABEL_LENGTH: usize = 256;
/// How long orphaned instances rest: an hour unless configured, a month at most.
const ORPHAN_GRACE_SECONDS: u32 = 3600;
const MAX_ORPHAN_GRACE_SECONDS: u32 = 30 * 24 * 3600;

/// Settings of a node.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeTable {
    /// What placement may go by. `strata.dev/…` are set by the node itself.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Servers beside the one given with --server; whichever answers is
    /// followed.
    #[serde(default)]
    servers: Vec<String>,
    /// Where the storage pool is mounted on this machine, now or later.
    pool: Option<PathBuf>,
    /// Directory of the Kubernetes bundles, for nested nodes. Default: that of
    /// the server on the same host, else the cache.
    kubernetes: Option<PathBuf>,
    /// How long an instance that the server has no record of rests before it
    /// is destroyed, in seconds. Default: 3600.
    orphan_grace_seconds: Option<u32>,
    /// Whether pods have the users of the host where the host has no idmapped
    /// mounts. Default: no, such pods are refused.
    #[serde(default)]
    allow_host_users: bool,
}

/// The same, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeSettings {
    pub(crate) orphan_grace: Duration,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) servers: Vec<Address>,
    pub(crate) pool: Option<PathBuf>,
    pub(crate) kubernetes: Option<PathBuf>,
    pub(crate) allow_host_users: bool,
}

impl NodeTable {
    pub(super) fn settings(self) -> Result<NodeSettings, String> {
        let fits =
            |text: &String| text.len() <= MAX_LABEL_LENGTH && !text.contains(char::is_control);
        let good = |(key, value): (&String, &String)| !key.is_empty() && fits(key) && fits(value);
        if self.labels.len() > MAX_LABELS || !self.labels.iter().all(good) {
            return Err(format!(
                "[node] labels: {MAX_LABELS} is the most, with keys and values of at most {MAX_LABEL_LENGTH} bytes"
            ));
        }
        let read = |text: &String| {
            let address = text.parse::<Address>();
            address.map_err(|why| format!("[node] servers: {why}"))
        };
        for (key, path) in [("pool", &self.pool), ("kubernetes", &self.kubernetes)] {
            if path.as_ref().is_some_and(|path| !path.is_absolute()) {
                return Err(format!(
                    "[node] {key}: a path that begins with / is expected"
                ));
            }
        }
        let grace = self.orphan_grace_seconds.unwrap_or(ORPHAN_GRACE_SECONDS);
        if grace > MAX_ORPHAN_GRACE_SECONDS {
            return Err(format!(
                "[node] orphan_grace_seconds is {grace}; it must be 0 to {MAX_ORPHAN_GRACE_SECONDS}"
            ));
        }
        Ok(NodeSettings {
            orphan_grace: Duration::from_secs(grace.into()),
            pool: self.pool,
            kubernetes: self.kubernetes,
            allow_host_users: self.allow_host_users,
            servers: self.servers.iter().map(read).collect::<Result<_, _>>()?,
            labels: self.labels,
        })
    }
}
