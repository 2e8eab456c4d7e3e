//! Clusters: machines that become Kubernetes, and go back.
//!
//! Machines are brought up and taken down by the operations of hypervisors,
//! which these begin and wait for; what happens on them is the driver's. Every
//! wish is written into the cluster's record before anything is done about it.

mod abandoned;
mod accepted;
mod answers;
mod create;
mod cures;
mod delete;
mod hands;
mod heal;
mod joining;
mod look;
mod machines;
mod none;
mod plans;
mod renew;
mod scale;
mod seen;
mod snapshot;
mod upgrade;
mod users;
mod wishes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use strata_clusters::catalogue::Catalogue;
use strata_clusters::{ClusterFacts, Driver, DriverError};
use strata_types::cluster::{ClusterRole, KubernetesVersion, Member};
use strata_types::{Error, ErrorKind, Result};
use strata_workflow::{At, Claim, Kind, Operations, Retry, StepError};

pub use create::{CreateCluster, CreateClusterInput};
pub use delete::{DeleteCluster, DeleteClusterInput};
pub use hands::Tunnelled;
pub use heal::{HealCluster, HealInput};
pub use renew::{RenewCluster, RenewInput};
pub use scale::{PoolChange, ScaleCluster, ScaleInput};
pub use seen::{Seen, Sight};
pub use snapshot::{RestoreCluster, RestoreClusterInput, SnapshotCluster, SnapshotInput};
pub use upgrade::{UpgradeCluster, UpgradeInput};
pub(crate) use users::user_name;

use crate::core::{Cluster, ClusterFailure, Core, HeldDrain, Work, now_ms};
use crate::operations::step_failed;

/// How long one machine may take to become a part of a cluster, or to stop
/// being one.
const MEMBER: Duration = Duration::from_secs(20 * 60);
/// The driver is asked again for a few minutes.
const PATIENT: Retry = Retry {
    attempts: 6,
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(30),
};

/// How this server keeps clusters.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Where bundles of Kubernetes are.
    pub bundles: PathBuf,
    /// Where the APIs of clusters are reached by people: the host alone.
    pub host: String,
    /// Where this server listens for them.
    pub listen: std::net::IpAddr,
    /// The first port of those for clusters.
    pub first_port: u16,
    /// How long a node may be not ready before its machine is replaced.
    pub patience: Duration,
    /// How often etcd is kept in a snapshot; never when zero.
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
            patience: Duration::from_secs(5 * 60),
            snapshot_every: Duration::from_secs(6 * 3600),
            keep_snapshots: 8,
        }
    }
}

/// What the operations of clusters work with. Cheap to clone.
#[derive(Clone)]
pub struct Clusters {
    /// The records.
    pub core: Core,
    /// What makes Kubernetes of machines.
    pub driver: Arc<dyn Driver>,
    /// The versions that can be installed.
    pub catalogue: Catalogue,
    /// How this server keeps them.
    pub settings: ClusterSettings,
    /// What was last seen of each.
    pub sight: Sight,
    /// Those that bring machines up and down; known once they are there.
    pub operations: Arc<OnceLock<Operations>>,
}

impl Clusters {
    /// Of a control plane that has none.
    pub fn none(core: Core) -> Self {
        Self {
            core,
            driver: Arc::new(none::NoKubernetes),
            catalogue: Catalogue::new("/nonexistent"),
            settings: ClusterSettings::default(),
            sight: Sight::default(),
            operations: Arc::default(),
        }
    }

    /// Whether an operation is at a cluster, or waits to be.
    pub(crate) async fn is_busy(&self, name: &str) -> bool {
        let Ok(operations) = self.operations() else {
            return true;
        };
        let held = crate::reconcile::busy(operations).await;
        held.map_or(true, |held| held.contains(&format!("cluster/{name}")))
    }

    fn operations(&self) -> Result<&Operations> {
        let operations = self.operations.get();
        operations.ok_or_else(|| Error::unavailable("operations are not there yet"))
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

    /// Writes down that something began, or that it is over.
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

    /// Writes down what stopped half-way, and hands it on.
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
                tracing::warn!(cluster = name, %error, "what went wrong is not written down");
            }
        }
        result
    }

    /// What was noted as stopped has gone on.
    async fn clear_failure(&self, name: &str, what: &str) -> Result<(), StepError> {
        let cleared = self.core.lead_cluster(name, |now| {
            let mut next = now.clone();
            next.failure = next.failure.filter(|failure| failure.what != what);
            Ok(next)
        });
        cleared.await.map(drop).map_err(step_failed)
    }

    /// Writes down what keeps a node from being drained, or that nothing does.
    async fn set_held(&self, name: &str, held: Option<HeldDrain>) -> Result<(), StepError> {
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

    /// Nothing is under way any more; what failed stays written down.
    async fn rest(&self, name: &str) -> Result<(), StepError> {
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

    /// One whose building ended before it began has nothing on its machines:
    /// they are free again.
    pub(crate) async fn call_off(&self, cluster: &Cluster) {
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
                    what: "building it".into(),
                    why: "it was called off".into(),
                    at_ms: now_ms(),
                });
            }
            Ok(next)
        });
        if let Err(error) = freed.await {
            tracing::warn!(cluster = name, %error, "its machines are not free yet");
        }
    }

    /// After a restore: its control plane has the version of then, and whoever
    /// was not reached is no part of it any more. It has another etcd, and must
    /// not be asked; another machine takes its place.
    async fn part_with(
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
        self.driver.introduce(&facts).await.map_err(driver_failed)
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

/// What is done on each machine of a step, one line each, for whoever watches.
struct Board<K: Kind> {
    at: At<K>,
    lines: Mutex<BTreeMap<String, String>>,
}

impl<K: Kind> Board<K> {
    fn new(at: &At<K>) -> Self {
        Self {
            at: at.clone(),
            lines: Mutex::default(),
        }
    }

    fn tell(&self, machine: &str, text: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.insert(machine.to_owned(), text.to_owned());
        let all = lines
            .iter()
            .map(|(machine, text)| format!("{machine}: {text}"));
        self.at.progress(all.collect::<Vec<_>>().join("\n"));
    }
}

/// The members of these machines, as they are known now.
fn members(cluster: &Cluster, machines: &[String]) -> Vec<Member> {
    let among = |member: &&Member| machines.iter().any(|id| id == member.machine.as_str());
    cluster.members.iter().filter(among).cloned().collect()
}
