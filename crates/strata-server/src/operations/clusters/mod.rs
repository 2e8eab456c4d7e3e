//! Kubernetes clusters: the operations that create, scale, upgrade, remediate
//! and delete them.
//!
//! Machines are started and stopped by the operations of hypervisors, which
//! these submit and wait for; the driver acts on the machines. Every accepted
//! change is in the cluster's record before an operation acts on it.
//!
//! `commands` and `queries` are the API; `planning`, `remediation` and
//! `observation*` decide; `create`, `scale`, `replace`, `upgrade`, `snapshot`,
//! `renew` and `delete` are operations; `membership` and `machines` are the
//! steps they share; `stale_operations` clears the state of operations that
//! are gone; `access` grants and revokes access.

mod accepted;
mod access;
mod activity;
mod commands;
mod create;
mod delete;
mod machines;
mod membership;
mod no_driver;
mod node_exec;
mod observation;
mod observation_cache;
mod planning;
mod queries;
mod remediation;
mod renew;
mod replace;
mod scale;
mod snapshot;
mod stale_operations;
mod upgrade;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use strata_clusters::catalogue::Catalogue;
use strata_clusters::{ClusterFacts, Driver, DriverError};
use strata_types::cluster::{ClusterRole, KubernetesVersion, Member};
use strata_types::{Error, ErrorKind, Result};
use strata_workflow::{Claim, Kind, Operations, Retry, StepContext, StepError};

pub(crate) use access::user_name;
pub use create::{CreateCluster, CreateClusterInput};
pub use delete::{DeleteCluster, DeleteClusterInput};
pub use node_exec::NodeExec;
pub use observation_cache::{ClusterObservation, ObservationCache};
pub use renew::{RenewCluster, RenewInput};
pub use replace::{HealCluster, HealInput};
pub use scale::{PoolChange, ScaleCluster, ScaleInput};
pub use snapshot::{RestoreCluster, RestoreClusterInput, SnapshotCluster, SnapshotInput};
pub use upgrade::{UpgradeCluster, UpgradeInput};

use crate::core::{Cluster, ClusterFailure, Core, HeldDrain, Work, now_ms};
use crate::operations::step_failed;

/// How long one machine may take to become a part of a cluster, or to stop
/// being one.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Driver calls are retried for a few minutes.
const RETRY_SHORT: Retry = Retry {
    attempts: 6,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(30),
};

/// Settings of the clusters of this server.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Where bundles of Kubernetes are.
    pub bundles: PathBuf,
    /// Host under which clients reach the APIs of clusters.
    pub host: String,
    /// Where this server listens for them.
    pub listen: std::net::IpAddr,
    /// The first port of those for clusters.
    pub first_port: u16,
    /// How long a node may be not ready before its machine is replaced.
    pub max_wait: Duration,
    /// Interval of etcd snapshots; zero disables them.
    pub snapshot_every: Duration,
    /// How many snapshots of a cluster are kept.
    pub keep_snapshots: usize,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            bundles: PathBuf::new(),
            host: "127.0.0.1".into(),
            listen: std::net::Ipv4Addr::LOCALHOST.into(),
            first_port: 7800,
            max_wait: Duration::from_secs(5 * 60),
            snapshot_every: Duration::from_secs(6 * 3600),
            keep_snapshots: 8,
        }
    }
}

/// What the operations of clusters work with. Cheap to clone.
#[derive(Clone)]
pub struct Clusters {
    pub core: Core,
    pub driver: Arc<dyn Driver>,
    /// The versions that can be installed.
    pub catalogue: Catalogue,
    pub settings: ClusterSettings,
    /// The latest observation of each cluster.
    pub observations: ObservationCache,
    /// The operation engine; set once it has started.
    pub operations: Arc<OnceLock<Operations>>,
}

impl Clusters {
    /// Of a control plane that has none.
    pub fn none(core: Core) -> Self {
        Self {
            core,
            driver: Arc::new(no_driver::NoKubernetes),
            catalogue: Catalogue::new("/nonexistent"),
            settings: ClusterSettings::default(),
            observations: ObservationCache::default(),
            operations: Arc::default(),
        }
    }

    /// Whether an operation is at a cluster, or waits to be.
    pub(crate) async fn is_busy(&self, name: &str) -> bool {
        let Ok(operations) = self.operations() else {
            return true;
        };
        let held = super::claimed(operations).await;
        held.map_or(true, |held| held.contains(&format!("cluster/{name}")))
    }

    fn operations(&self) -> Result<&Operations> {
        let operations = self.operations.get();
        operations.ok_or_else(|| Error::unavailable("operations are not started yet"))
    }

    /// A cluster as its driver needs to know it.
    pub(crate) async fn facts(&self, name: &str) -> Result<ClusterFacts> {
        let cluster = self.core.cluster(name)?;
        Ok(ClusterFacts {
            name: cluster.name.clone(),
            id: cluster.id.clone(),
            version: cluster.spec.version,
            controls: cluster.spec.control_plane.count,
            pod_security: cluster.spec.control_plane.pod_security,
            members: cluster.members.clone(),
            secrets: self.core.cluster_secrets(&cluster.name).await?,
        })
    }

    /// Records the work that starts, or that the cluster is idle.
    async fn set_work(&self, name: &str, work: Work, operation: &str) -> Result<(), StepError> {
        let set = self.core.lead_cluster(name, |now| {
            if now.work == Work::Deleting && work != Work::Deleting {
                return Err(Error::wrong_state(format!("{name} is being deleted")));
            }
            let mut next = now.clone();
            next.work = work;
            operation.clone_into(&mut next.operation);
            if work == Work::Idle {
                next.failure = None;
            }
            if work == Work::Deleting {
                (next.accepted, next.held) = (Vec::new(), None);
            }
            Ok(next)
        });
        set.await.map(drop).map_err(step_failed)
    }

    /// Records a failure in the cluster record, and passes the result on.
    async fn note<T>(
        &self,
        name: &str,
        what: &str,
        result: Result<T, StepError>,
    ) -> Result<T, StepError> {
        if let Err(error) = &result
            && !matches!(error, StepError::Cancelled)
        {
            let why: String = error.to_string().chars().take(2000).collect();
            let noted = self.core.lead_cluster(name, |now| {
                let mut next = now.clone();
                next.failure = Some(ClusterFailure {
                    what: what.to_owned(),
                    why: why.clone(),
                    at_ms: now_ms(),
                });
                Ok(next)
            });
            if let Err(error) = noted.await {
                tracing::warn!(cluster = name, %error, "failure not recorded");
            }
        }
        result
    }

    /// Clears a recorded failure of this activity.
    async fn clear_failure(&self, name: &str, what: &str) -> Result<(), StepError> {
        let cleared = self.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            next.failure = next
                .failure
                .filter(|failure| !activity::is(&failure.what, what));
            Ok(next)
        });
        cleared.await.map(drop).map_err(step_failed)
    }

    /// Records what blocks the drain of a node, or that nothing does.
    async fn set_drain_blocked(
        &self,
        name: &str,
        held: Option<HeldDrain>,
    ) -> Result<(), StepError> {
        let is_known = |now: &Cluster| now.held == held;
        if self.core.cluster(name).is_ok_and(|now| is_known(&now)) {
            return Ok(());
        }
        let set = self.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            next.held.clone_from(&held);
            Ok(next)
        });
        match set.await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(step_failed(error)),
            _ => Ok(()),
        }
    }

    /// Sets the cluster idle; a recorded failure stays.
    async fn set_idle(&self, name: &str) -> Result<(), StepError> {
        let rested = self.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            if now.work != Work::Deleting {
                next.work = Work::Idle;
            }
            Ok(next)
        });
        match rested.await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(step_failed(error)),
            _ => Ok(()),
        }
    }

    /// Releases the machines of a cluster whose creation ended before its
    /// first step: nothing is installed on them.
    pub(crate) async fn release_unstarted(&self, cluster: &Cluster) {
        let name = cluster.name.as_str();
        if self.is_busy(name).await {
            return;
        }
        let freed = self.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            let untouched = now
                .members
                .iter()
                .all(|it| self.is_down(it.machine.as_str()));
            if now.id == cluster.id && now.work == Work::Creating && untouched {
                next.members.clear();
                next.work = Work::Idle;
                next.failure = Some(ClusterFailure {
                    what: activity::CREATE.into(),
                    why: "it was cancelled".into(),
                    at_ms: now_ms(),
                });
            }
            Ok(next)
        });
        if let Err(error) = freed.await {
            tracing::warn!(cluster = name, %error, "machines of the cancelled cluster not released");
        }
    }

    /// After a restore the control plane has the version of the snapshot, and
    /// members that were not reached are no longer part of it: they hold the
    /// old etcd data, are marked as not joined, and get replaced.
    async fn drop_unrestored(
        &self,
        name: &str,
        restored: &[String],
        version: KubernetesVersion,
    ) -> Result<(), StepError> {
        let set = self.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            next.spec.version = version;
            let controls = next.members.iter_mut();
            for member in controls.filter(|it| it.role == ClusterRole::ControlPlane) {
                member.version = version;
                member.joined &= restored.iter().any(|id| id == member.machine.as_str());
            }
            Ok(next)
        });
        set.await.map_err(step_failed)?;
        let facts = self.facts(name).await.map_err(step_failed)?;
        self.driver
            .update_peers(&facts)
            .await
            .map_err(driver_failed)
    }

    /// Changes what is known of one member.
    async fn set_member(
        &self,
        name: &str,
        machine: &str,
        mut change: impl FnMut(&mut Member),
    ) -> Result<(), StepError> {
        let set = self.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            for member in &mut next.members {
                if member.machine.as_str() == machine {
                    change(member);
                }
            }
            Ok(next)
        });
        set.await.map(drop).map_err(step_failed)
    }
}

/// What an operation on a cluster has to itself.
fn claims(cluster: &str) -> Vec<Claim> {
    vec![Claim::exclusive(format!("cluster/{cluster}"))]
}

/// A step failed at the driver.
#[allow(clippy::needless_pass_by_value)] // for map_err
fn driver_failed(error: DriverError) -> StepError {
    match error.is_transient() {
        true => StepError::transient(error.to_string()),
        false => StepError::permanent(error.to_string()),
    }
}

/// The public error of a driver's.
#[allow(clippy::needless_pass_by_value)] // for map_err
pub(crate) fn driver_public(error: DriverError) -> Error {
    let text = error.to_string();
    match error {
        DriverError::Unreachable { .. } | DriverError::Silent(_) => Error::unavailable(text),
        DriverError::Refused(_) | DriverError::Missing { .. } => Error::wrong_state(text),
        DriverError::Failed { passing: true, .. } => Error::unavailable(text),
        _ => Error::internal(text),
    }
}

/// Progress of a step: one line per machine.
struct StepProgress<K: Kind> {
    ctx: StepContext<K>,
    lines: Mutex<BTreeMap<String, String>>,
}

impl<K: Kind> StepProgress<K> {
    fn new(ctx: &StepContext<K>) -> Self {
        Self {
            ctx: ctx.clone(),
            lines: Mutex::default(),
        }
    }

    fn set(&self, machine: &str, text: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.insert(machine.to_owned(), text.to_owned());
        let all = lines
            .iter()
            .map(|(machine, text)| format!("{machine}: {text}"));
        self.ctx.progress(all.collect::<Vec<_>>().join("\n"));
    }
}

/// The members of these machines, as they are known now.
fn members(cluster: &Cluster, machines: &[String]) -> Vec<Member> {
    let among = |member: &&Member| machines.iter().any(|id| id == member.machine.as_str());
    cluster.members.iter().filter(among).cloned().collect()
}
