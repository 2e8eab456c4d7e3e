//! The real driver: upstream Kubernetes by its own `kubeadm`, on machines
//! that are reached by [`RemoteExec`].
//!
//! ```text
//! remote_exec  what is done on a machine; the server provides the connection
//! machine      our scripts and files on one machine
//! install      all that is below Kubernetes
//! join         init and join
//! api, etcd    the cluster itself, called directly
//! ```
//!
//! The server makes the CAs of a cluster, so it can always authenticate there,
//! and verify the cluster, without a file of any machine.

mod access;
mod agent;
mod api;
mod apiserver;
mod archive;
mod bundle_transfer;
mod config;
mod drain;
mod driver;
mod etcd;
#[cfg(test)]
mod fake;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod install;
mod join;
mod machine;
mod objects;
mod observe;
mod pki;
mod preflight;
mod remote_exec;
mod renew;
mod restore;
mod snapshots;
mod static_pods;
#[cfg(test)]
mod tests;
mod tls;
mod token;
mod upgrade;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use strata_types::cluster::{ClusterRole, Member};

pub use apiserver::encryption;
pub use remote_exec::{ExecOutput, ExecRequest, RemoteExec};

use crate::catalogue::Catalogue;
use crate::{ClusterFacts, DriverError};
use api::Api;
use etcd::Etcd;
use machine::Machine;

/// A certificate is good for an hour, and a long call begins with enough left.
const CONNECTION_TTL: Duration = Duration::from_secs(30 * 60);

/// Where things are on this server.
#[derive(Clone, Debug)]
pub struct KubeadmSettings {
    /// The directory of all bundles, one of a version each.
    pub catalogue: PathBuf,
    /// Where snapshots are kept, in a directory for each cluster.
    pub snapshots: PathBuf,
    /// How many of each cluster; the oldest go.
    pub keep: usize,
}

pub struct Kubeadm {
    remote_exec: Arc<dyn RemoteExec>,
    catalogue: Catalogue,
    /// The directory of snapshots.
    snapshots: PathBuf,
    /// How many of each cluster.
    keep: usize,
    /// Connections by the cluster's id, while their certificate is fresh.
    clients: Mutex<HashMap<String, (Instant, Api)>>,
    /// Of the API servers.
    port: u16,
}

impl Kubeadm {
    /// With this remote exec.
    pub fn new(remote_exec: Arc<dyn RemoteExec>, settings: KubeadmSettings) -> Self {
        Self {
            remote_exec,
            catalogue: Catalogue::new(settings.catalogue),
            snapshots: settings.snapshots,
            keep: settings.keep,
            clients: Mutex::default(),
            port: config::API_PORT,
        }
    }

    fn machine<'a>(&'a self, member: &'a Member) -> Machine<'a> {
        Machine {
            remote_exec: &*self.remote_exec,
            name: member.machine.as_str(),
        }
    }

    /// The API of a cluster, by all that serve it.
    fn api(&self, cluster: &ClusterFacts) -> Result<Api, DriverError> {
        self.api_at(cluster, controls(cluster))
    }

    /// The API of a cluster, by these of its machines.
    fn api_at<'a>(
        &self,
        cluster: &ClusterFacts,
        members: impl Iterator<Item = &'a Member>,
    ) -> Result<Api, DriverError> {
        let servers = members.map(|member| format!("{}:{}", member.address, self.port));
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, (made, _)| made.elapsed() < CONNECTION_TTL);
        let api = match clients.get(&cluster.id) {
            Some((_, api)) => api.clone(),
            None => {
                let api = Api::new(tls::config(&cluster.secrets, pki::CLUSTER)?);
                clients.insert(cluster.id.clone(), (Instant::now(), api.clone()));
                api
            }
        };
        Ok(api.over(servers.collect()))
    }

    /// The etcd of a cluster, without one member that is not to be called.
    fn etcd(&self, cluster: &ClusterFacts, without: Option<&Member>) -> Result<Etcd, DriverError> {
        let others = controls(cluster)
            .filter(|member| without.is_none_or(|it| it.machine != member.machine))
            .map(|member| member.address.clone());
        Etcd::new(&cluster.secrets, others.collect())
    }
}

/// The control plane, as far as it has joined.
fn controls(cluster: &ClusterFacts) -> impl Iterator<Item = &Member> {
    cluster.members.iter().filter(|member| {
        member.joined && member.role == ClusterRole::ControlPlane && !member.address.is_empty()
    })
}
