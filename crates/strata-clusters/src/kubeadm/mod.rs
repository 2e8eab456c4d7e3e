//! The real driver: upstream Kubernetes by its own `kubeadm`, on machines
//! that are reached by [`Hands`].
//!
//! ```text
//! hands      what is done on a machine; the server has the way there
//! machine    our scripts and files on one machine
//! install    all that is below Kubernetes
//! enter      init and join
//! api, etcd  the cluster itself, asked directly
//! ```
//!
//! The server makes the authorities of a cluster, so it can always prove who
//! it is there, and knows whom to believe, without a file of any machine.

mod access;
mod agent;
mod api;
mod archive;
mod bundle;
mod config;
mod drain;
mod enter;
mod etcd;
mod etcd_wire;
mod hands;
mod install;
mod machine;
mod objects;
mod observe;
mod pki;
mod tls;
mod token;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::json;
use strata_types::Secret;
use strata_types::cluster::{ClusterName, ClusterRole, KubernetesVersion, Member};

pub use hands::{Hands, Ran, Run};

use crate::{ClusterFacts, Done, Drained, Driver, DriverError, Observed, Preflight, Snapshot};
use api::Api;
use enter::Entry;
use etcd::Etcd;
use machine::{HERE, Machine};

/// Where things are on this server.
#[derive(Clone, Debug)]
pub struct KubeadmSettings {
    /// The folder of all bundles, one of a version each.
    pub catalogue: PathBuf,
    /// Where snapshots are kept, in a folder for each cluster.
    pub snapshots: PathBuf,
}

/// Kubernetes by kubeadm.
pub struct Kubeadm {
    hands: Arc<dyn Hands>,
    settings: KubeadmSettings,
    /// Connections by the cluster's id, while their certificate is good.
    clients: Mutex<HashMap<String, (Instant, Api)>>,
    port: u16,
}

impl Kubeadm {
    /// With these hands.
    pub fn new(hands: Arc<dyn Hands>, settings: KubeadmSettings) -> Self {
        Self {
            hands,
            settings,
            clients: Mutex::default(),
            port: config::API_PORT,
        }
    }
}
