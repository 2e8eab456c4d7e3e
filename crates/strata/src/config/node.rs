//! The `[node]` section: what a node says of itself to its server.
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

/// The most labels, and the longest key or value.
const MOST_LABELS: usize = 100;
const LONGEST_LABEL: usize = 256;
/// How long orphaned instances rest: an hour unless configured, a month at most.
const ORPHAN_GRACE_SECONDS: u32 = 3600;
const MOST_ORPHAN_GRACE_SECONDS: u32 = 30 * 24 * 3600;

/// What a node says of itself.
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
    /// The folder of the versions of Kubernetes, for machines inside this one;
    /// that of the server beside it unless told, else the cache's.
    kubernetes: Option<PathBuf>,
    /// How long an instance that the server has no record of rests before it
    /// is destroyed, in seconds. Default: 3600.
    orphan_grace_seconds: Option<u32>,
}

/// The same, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeSettings {
    pub(crate) orphan_grace: Duration,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) servers: Vec<Address>,
    pub(crate) pool: Option<PathBuf>,
    pub(crate) kubernetes: Option<PathBuf>,
}

impl NodeTable {
    pub(super) fn settings(self) -> Result<NodeSettings, String> {
        let fits = |text: &String| text.len() <= LONGEST_LABEL && !text.contains(char::is_control);
        let good = |(key, value): (&String, &String)| !key.is_empty() && fits(key) && fits(value);
        if self.labels.len() > MOST_LABELS || !self.labels.iter().all(good) {
            return Err(format!(
                "[node] labels: {MOST_LABELS} is the most, with keys and values of at most {LONGEST_LABEL} bytes"
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
        if grace > MOST_ORPHAN_GRACE_SECONDS {
            return Err(format!(
                "[node] orphan_grace_seconds is {grace}; it must be 0 to {MOST_ORPHAN_GRACE_SECONDS}"
            ));
        }
        Ok(NodeSettings {
            orphan_grace: Duration::from_secs(grace.into()),
            pool: self.pool,
            kubernetes: self.kubernetes,
            servers: self.servers.iter().map(read).collect::<Result<_, _>>()?,
            labels: self.labels,
        })
    }
}
