//! The `[store]` and `[scheduler]` sections: where records are kept, and how
//! instances are placed.
//!
//! ```toml
//! [store]
//! etcd = ["https://10.0.0.1:2379", "https://10.0.0.2:2379"]
//! ca = "/etc/strata/etcd/ca.crt"
//! certificate = "/etc/strata/etcd/client.crt"
//! key = "/etc/strata/etcd/client.key"
//!
//! [scheduler]
//! policy = "spread"
//! overcommit_cpu = 2.0
//! lease_seconds = 10
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use strata_node::NetworkOptions;
use strata_scheduler::{Overcommit, Policy, Settings};
use strata_server::core::{CoreSettings, Range, StoreBounds};
use strata_server::{StoreConfig, StoreEngine};
use strata_store::{EtcdOptions, EtcdTls};

/// etcd endpoints. Default: records are stored in a file in the data directory.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreTable {
    /// The members of an etcd, which several servers share.
    #[serde(default)]
    etcd: Vec<String>,
    /// Key prefix in etcd. Default: `strata/`.
    prefix: Option<String>,
    /// The CA of etcd, in PEM.
    ca: Option<PathBuf>,
    /// The certificate that etcd is shown, in PEM.
    certificate: Option<PathBuf>,
    /// Its key.
    key: Option<PathBuf>,
    /// The file with the key that the records are sealed with. Default:
    /// `store.key` in the data directory.
    key_file: Option<PathBuf>,
}

/// How instances are placed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchedulerTable {
    /// Scoring policy: `bin-pack` or `spread`. Default: `bin-pack`.
    policy: Option<Policy>,
    /// CPU overcommit factor. Default: 1.
    overcommit_cpu: Option<f64>,
    /// The same for memory.
    overcommit_memory: Option<f64>,
    /// The same for disk.
    overcommit_disk: Option<f64>,
    /// Seconds without a heartbeat after which a node is lost. Default: 10.
    lease_seconds: Option<u32>,
}

/// What the control plane goes by.
#[derive(Clone, Debug)]
pub(crate) struct ControlSettings {
    pub(crate) store: StoreConfig,
    pub(crate) core: CoreSettings,
}

impl ControlSettings {
    pub(super) fn new(
        store: StoreTable,
        scheduler: &SchedulerTable,
        network: &NetworkOptions,
        data_dir: &Path,
        bounds: StoreBounds,
    ) -> Result<Self, String> {
        let alone = store.etcd.is_empty();
        let lease = lease(scheduler)?;
        if !alone && lease < SHORTEST_SHARED_LEASE {
            return Err(format!(
                "[scheduler] lease_seconds is {}; with several servers it must be at least {}: \
                 another server takes over within half of it",
                lease.as_secs(),
                SHORTEST_SHARED_LEASE.as_secs()
            ));
        }
        let core = CoreSettings {
            range: match &network.configured_range {
                Some(range) => range
                    .to_string()
                    .parse()
                    .map_err(|why| format!("[network] range: {why}"))?,
                None => Range::DEFAULT,
            },
            lease,
            placement: Settings {
                policy: scheduler.policy.unwrap_or_default(),
                ..Settings::default()
            },
            overcommit: Overcommit {
                cpu: thousandths("overcommit_cpu", scheduler.overcommit_cpu)?,
                memory: thousandths("overcommit_memory", scheduler.overcommit_memory)?,
                disk: thousandths("overcommit_disk", scheduler.overcommit_disk)?,
            },
            alone,
            bounds,
            events_file: Some(data_dir.join("events.jsonl")),
            server_port: None,
        };
        let key_file = store.key_file.clone();
        let engine = match alone {
            true => StoreEngine::Embedded(data_dir.join("store")),
            false => StoreEngine::Etcd(store.options()?),
        };
        let store = StoreConfig {
            engine,
            key_file: key_file.unwrap_or_else(|| data_dir.join("store.key")),
            may_be_new: true,
            control_plane: None,
        };
        Ok(Self { store, core })
    }
}

/// Twice as long as the shortest lead.
const SHORTEST_SHARED_LEASE: Duration = Duration::from_secs(5);

fn lease(scheduler: &SchedulerTable) -> Result<Duration, String> {
    match scheduler.lease_seconds {
        None => Ok(Duration::from_secs(10)),
        Some(seconds @ 3..=3600) => Ok(Duration::from_secs(seconds.into())),
        Some(other) => Err(format!(
            "[scheduler] lease_seconds is {other}; it must be 3 to 3600"
        )),
    }
}

fn thousandths(key: &str, factor: Option<f64>) -> Result<u32, String> {
    match factor {
        None => Ok(1000),
        Some(factor) if (0.1..=100.0).contains(&factor) => Ok((factor * 1000.0).round() as u32),
        Some(factor) => Err(format!(
            "[scheduler] {key} is {factor}; it must be 0.1 to 100"
        )),
    }
}

impl StoreTable {
    fn options(self) -> Result<EtcdOptions, String> {
        let read = |key: &str, path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|error| format!("[store] {key} {}: {error}", path.display()))
        };
        let identity = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                Some((read("certificate", certificate)?, read("key", key)?))
            }
            (None, None) => None,
            _ => return Err("[store] certificate and key go together".into()),
        };
        let tls = match &self.ca {
            Some(ca) => Some(EtcdTls {
                ca_pem: read("ca", ca)?,
                identity,
            }),
            None if identity.is_some() => return Err("[store] certificate needs ca".into()),
            None => None,
        };
        let mut options = EtcdOptions {
            endpoints: self.etcd,
            tls,
            ..EtcdOptions::default()
        };
        if let Some(prefix) = self.prefix {
            options.prefix = prefix;
        }
        Ok(options)
    }
}
