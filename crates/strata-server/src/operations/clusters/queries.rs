//! The queries of clusters, shared by REST and gRPC: answered from records and
//! the latest observations.

use strata_api::rest::{
    Cluster as Report, ClusterNode, ClusterSnapshot, KubernetesBundle, PoolStatus, UpgradeBlocker,
    UpgradePlan, UpgradeStep,
};
use strata_clusters::{skew, status};
use strata_types::Result;
use strata_types::cluster::{ClusterRole, ClusterStatus, NodePool};
use strata_types::machine::{MachinePhase, PowerState};

use super::planning::missing;
use super::{Clusters, driver_public};
use crate::core::{Cluster, ClusterChange, Work, now_ms};

/// In place of the phase of a machine that is up and does not answer.
const LOST: &str = "LOST";
/// The same of one that its provider reports as switched off.
const OFF: &str = "OFF";

impl Clusters {
    pub fn list(&self) -> Vec<Report> {
        let clusters = self.core.clusters();
        clusters
            .iter()
            .map(|cluster| self.status_report(cluster))
            .collect()
    }

    pub fn get(&self, name: &str) -> Result<Report> {
        Ok(self.status_report(&*self.core.cluster(name)?))
    }

    /// How a cluster stands, and what is the matter.
    pub fn status(&self, cluster: &Cluster) -> (ClusterStatus, String) {
        if cluster.members.is_empty() && cluster.work == Work::Idle {
            let why = match &cluster.failure {
                Some(failure) => format!("{} failed: {}", failure.what, failure.why),
                None => "it has no machines".into(),
            };
            let name = &cluster.name;
            let why = format!("{why}; its machines were released; strata cluster delete {name}");
            return (ClusterStatus::Error, why);
        }
        // A cluster of which nothing was begun cannot be observed.
        if cluster.work == Work::Idle && !cluster.members.iter().any(|it| it.joined) {
            let why = match &cluster.failure {
                Some(failure) => format!("{} failed: {}", failure.what, failure.why),
                None => "none of its machines takes part".into(),
            };
            let name = &cluster.name;
            let why = format!("{why}; give its machines back with: strata cluster delete {name}");
            return (ClusterStatus::Error, why);
        }
        let held = cluster.held.as_ref().map(|held| held.why.clone());
        let stopped = cluster.failure.as_ref();
        let stopped = stopped.map(|it| format!("{} stopped: {}", it.what, it.why));
        let stopped = held.or(stopped);
        let work = match cluster.work {
            _ if cluster.is_to_be_deleted() => status::Work::Deleting,
            Work::Idle => match cluster.accepted.first().map(|it| &it.change) {
                None => status::Work::Idle,
                Some(ClusterChange::Pools(_)) => status::Work::Changing("its pools"),
                Some(ClusterChange::Upgrade(to)) => status::Work::Upgrading(*to),
                Some(ClusterChange::Delete) => status::Work::Deleting,
            },
            Work::Creating => status::Work::Creating,
            Work::Scaling => status::Work::Changing("its pools"),
            Work::Healing => status::Work::Changing("what died is replaced"),
            Work::Upgrading { to } => status::Work::Upgrading(to),
            Work::Restoring => status::Work::Restoring("asked for"),
            Work::Deleting => status::Work::Deleting,
        };
        let early = self.remediation_delays().lost;
        let observation = self
            .observations
            .settled(cluster.name.as_str(), &cluster.id, early);
        let plan = observation.as_ref().filter(|_| cluster.work == Work::Idle);
        let plan = plan.and_then(|observation| self.plan_remediation(cluster, observation).ok());
        let facts = status::Facts {
            name: cluster.name.as_str(),
            spec: &cluster.spec,
            members: &cluster.members,
            work,
            stopped: stopped.as_deref(),
            unreplaced: &plan.unwrap_or_default().blocked,
            lost: &self.lost(cluster),
        };
        let memory = observation
            .as_ref()
            .map(|observation| observation.memory.clone());
        let observation = observation.map(|observation| observation.observed);
        status::status(
            &facts,
            observation.as_ref(),
            &memory.unwrap_or_default(),
            &self.remediation_delays(),
            now_ms(),
        )
    }

    pub(crate) fn remediation_delays(&self) -> status::RemediationDelays {
        status::RemediationDelays {
            not_ready: self.settings.max_wait,
            lost: self
                .settings
                .max_wait
                .min(status::RemediationDelays::default().lost),
        }
    }

    /// A cluster as the API returns it.
    pub(crate) fn status_report(&self, cluster: &Cluster) -> Report {
        let (status, message) = self.status(cluster);
        let observation = self.observed(cluster);
        let ready = cluster.members.iter().filter(|member| {
            let mut nodes = observation.nodes.iter();
            nodes.any(|node| node.ready && node.name == member.machine.as_str())
        });
        Report {
            name: cluster.name.to_string(),
            version: cluster.spec.version.to_string(),
            status,
            message,
            server: self.server_of(cluster),
            control_plane: cluster.spec.control_plane.clone(),
            pools: cluster.spec.pools.clone(),
            ready: u32::try_from(ready.count()).unwrap_or(0),
            machines: u32::try_from(cluster.members.len()).unwrap_or(0),
            operation: cluster.operation.clone(),
            created_at_ms: cluster.created_at_ms,
        }
    }

    /// The machines of a cluster and their nodes.
    pub fn nodes(&self, name: &str) -> Result<Vec<ClusterNode>> {
        let cluster = self.core.cluster(name)?;
        let observation = self.observed(&cluster);
        let lost = self.lost(&cluster);
        let node = |member: &strata_types::cluster::Member| {
            let id = member.machine.as_str();
            let observation = observation.nodes.iter().find(|node| node.name == id);
            let status = match observation {
                Some(node) if node.ready && node.unschedulable => "Ready,SchedulingDisabled",
                Some(node) if node.ready => "Ready",
                Some(node) if node.unschedulable => "NotReady,SchedulingDisabled",
                Some(_) => "NotReady",
                None => "Unknown",
            };
            let phase = self.core.machine(id).map(|machine| {
                let is_lost = lost.contains(id) && machine.phase == MachinePhase::Up;
                match machine.power {
                    PowerState::Off if is_lost => OFF.to_owned(),
                    _ if is_lost => LOST.to_owned(),
                    _ => machine.phase.to_string(),
                }
            });
            ClusterNode {
                machine: id.to_owned(),
                role: member.role,
                pool: member.pool.clone(),
                status: status.to_owned(),
                version: observation
                    .map(|node| node.version.clone())
                    .unwrap_or_default(),
                phase: phase.unwrap_or_else(|_| "GONE".into()),
                address: member.address.clone(),
                message: observation
                    .map(|node| node.reason.clone())
                    .unwrap_or_default(),
            }
        };
        Ok(cluster.members.iter().map(node).collect())
    }

    /// What the provider of a machine calls it, and its host name; its id where
    /// the provider has not reported one.
    pub fn provider_names(&self, machine: &str) -> (String, String) {
        let found = self.core.machine(machine).ok();
        let handle = found.as_ref().map(|found| found.spec.handle.clone());
        // Any machine with a tag: which one, only the provider reports.
        let handle = handle.filter(|handle| !handle.is_empty() && !handle.starts_with("tag:"));
        let observation = found.as_ref().and_then(|found| found.provider_id.clone());
        let hostname = found.as_ref().and_then(|found| found.hostname.clone());
        let id = || machine.to_owned();
        (
            observation.or(handle).unwrap_or_else(id),
            hostname.unwrap_or_else(id),
        )
    }

    /// The pools of a cluster.
    pub fn pools(&self, name: &str) -> Result<Vec<PoolStatus>> {
        let cluster = self.core.cluster(name)?;
        let nodes = self.nodes(name)?;
        let pool = |pool: &NodePool| {
            let of = nodes.iter().filter(|node| node.pool == pool.name);
            let ready = of.clone().filter(|node| node.status == "Ready").count();
            PoolStatus {
                name: pool.name.clone(),
                count: pool.count,
                ready: u32::try_from(ready).unwrap_or(0),
                instance_type: pool.instance_type,
                labels: pool.labels.clone(),
                machines: of.map(|node| node.machine.clone()).collect(),
            }
        };
        Ok(cluster.spec.pools.iter().map(pool).collect())
    }

    /// What an upgrade would do, and what is in its way.
    pub async fn upgrade_plan(&self, name: &str, version: &str) -> Result<UpgradePlan> {
        let cluster = self.core.cluster(name)?;
        let to = self.catalogue.resolve(version).map_err(missing)?.version;
        self.may_upgrade(&cluster, to)?;
        let workers = cluster.members.iter();
        let workers = workers
            .filter(|member| member.role == ClusterRole::Worker)
            .count();
        let steps = skew::order(&cluster.members).into_iter();
        let steps = steps
            .filter(|member| member.version != to)
            .map(|member| UpgradeStep {
                machine: member.machine.to_string(),
                role: member.role,
                from: member.version.to_string(),
                drain: member.role == ClusterRole::Worker && workers > 1,
            });
        let facts = self.facts(name).await?;
        let found = self.driver.preflight(&facts, to).await;
        let blockers = found.map_err(driver_public)?.blockers.into_iter();
        Ok(UpgradePlan {
            from: cluster.spec.version.to_string(),
            to: to.to_string(),
            steps: steps.collect(),
            blockers: blockers
                .map(|it| UpgradeBlocker {
                    what: it.what,
                    hint: it.hint,
                })
                .collect(),
        })
    }

    /// The snapshots of a cluster.
    pub fn snapshots(&self, name: &str) -> Result<Vec<ClusterSnapshot>> {
        let cluster = self.core.cluster(name)?;
        let all = self
            .driver
            .snapshots(&cluster.name)
            .map_err(driver_public)?;
        let told = all.into_iter().map(|it| ClusterSnapshot {
            id: it.id,
            at_ms: it.at_ms,
            size: it.size,
            version: it.version.to_string(),
            reason: it.reason,
        });
        Ok(told.collect())
    }

    /// The versions that can be installed here.
    pub fn versions(&self) -> Vec<KubernetesBundle> {
        let all = self.catalogue.versions().into_iter();
        all.map(|bundle| KubernetesBundle {
            version: bundle.version.to_string(),
            etcd: bundle.etcd,
            coredns: bundle.coredns,
        })
        .collect()
    }
}
