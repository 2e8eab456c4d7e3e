//! Kubernetes clusters, as served under `/cluster`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_types::cluster::{ClusterRole, ClusterStatus, ControlPlane, InstanceType, NodePool};

/// A cluster to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewCluster {
    /// Name: a DNS label.
    pub name: String,
    /// Kubernetes version: `v1.34.4`, or `1.34` for its newest available patch
    /// release. Default: the newest available.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Control plane.
    pub control_plane: ControlPlane,
    /// Node pools.
    #[serde(default)]
    pub pools: Vec<NodePool>,
}

/// A Kubernetes cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Name.
    pub name: String,
    /// Desired Kubernetes version.
    pub version: String,
    /// State.
    pub status: ClusterStatus,
    /// What is wrong and what to do, if something is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// URL of the Kubernetes API.
    pub server: String,
    /// Control plane.
    pub control_plane: ControlPlane,
    /// Node pools.
    pub pools: Vec<NodePool>,
    /// Number of ready nodes.
    pub ready: u32,
    /// Number of machines.
    pub machines: u32,
    /// ID of the latest operation on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// Time of the request, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// A machine of a cluster and its Kubernetes node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// Machine ID; also the name of the Kubernetes node.
    pub machine: String,
    /// Role in the cluster.
    pub role: ClusterRole,
    /// Node pool of a worker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// State as reported by Kubernetes: `Ready`, `NotReady`,
    /// `Ready,SchedulingDisabled` or `Unknown`.
    pub status: String,
    /// Version of its kubelet; empty before it has joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Phase of the machine.
    pub phase: String,
    /// IP address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Why it is not ready, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A change to a node pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalePool {
    /// Desired number of machines.
    pub count: u32,
}

/// A node pool and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// Name.
    pub name: String,
    /// Desired number of machines.
    pub count: u32,
    /// Number of ready nodes.
    pub ready: u32,
    /// Type of its machines.
    pub instance_type: InstanceType,
    /// Labels of its Kubernetes nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// IDs of its machines.
    pub machines: Vec<String>,
}

/// An upgrade to a Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpgradeRequest {
    /// Version, e.g. `v1.35.4`.
    pub version: String,
}

/// The steps of an upgrade, and what blocks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradePlan {
    /// Present version.
    pub from: String,
    /// Version after the upgrade.
    pub to: String,
    /// The steps in order: the machine and what is done on it.
    pub steps: Vec<UpgradeStep>,
    /// What blocks the upgrade.
    pub blockers: Vec<UpgradeBlocker>,
}

/// The upgrade of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStep {
    /// Machine ID.
    pub machine: String,
    /// Role in the cluster.
    pub role: ClusterRole,
    /// Installed version.
    pub from: String,
    /// Whether it is drained first.
    pub drain: bool,
}

/// A condition that blocks an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradeBlocker {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

/// The versions that a cluster can be upgraded to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradeTargets {
    /// Version, e.g. `v1.35.4`.
    pub versions: Vec<String>,
}

/// A Kubernetes version that this server can install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KubernetesBundle {
    /// Version, e.g. `v1.34.4`.
    pub version: String,
    /// Version of etcd.
    pub etcd: String,
    /// Version of CoreDNS.
    pub coredns: String,
}

/// A request for credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigRequest {
    /// Validity in seconds, 600 to 604,800. Default: 43,200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// Credentials for a cluster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Kubeconfig {
    /// The kubeconfig file.
    pub kubeconfig: String,
    /// User name in the cluster.
    pub user: String,
    /// Expiry time, in Unix milliseconds.
    pub expires_at_ms: i64,
}

impl std::fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeconfig")
            .field("user", &self.user)
            .field("expires_at_ms", &self.expires_at_ms)
            .finish_non_exhaustive()
    }
}

/// A snapshot of the etcd of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterSnapshot {
    /// Unique ID.
    pub id: String,
    /// Creation time, in Unix milliseconds.
    pub at_ms: i64,
    /// Size in bytes.
    pub size: u64,
    /// Kubernetes version of the cluster at that time.
    pub version: String,
    /// Reason for the snapshot.
    pub reason: String,
}

/// Restores a cluster from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreCluster {
    /// ID of the snapshot, or `latest`.
    pub snapshot: String,
}

/// The machines that a change of a cluster would allocate and release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterPlan {
    /// Machines to allocate.
    pub add: Vec<PlannedMachine>,
    /// Machines to release, in this order.
    pub remove: Vec<PlannedMachine>,
}

/// A machine in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlannedMachine {
    /// Machine ID.
    pub machine: String,
    /// Role in the cluster.
    pub role: ClusterRole,
    /// Node pool of a worker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// Why this machine was chosen.
    pub why: String,
}
