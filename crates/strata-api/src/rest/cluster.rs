//! Kubernetes clusters as `/cluster/` tells of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strata_types::cluster::{ClusterRole, ClusterStatus, ControlPlane, InstanceType, NodePool};

/// A cluster that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewCluster {
    /// A DNS label.
    pub name: String,
    /// Of Kubernetes: `v1.34.4`, or `1.34` for the newest of these here; the
    /// newest of all when it is not told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What controls it.
    pub control_plane: ControlPlane,
    /// What works in it.
    #[serde(default)]
    pub pools: Vec<NodePool>,
}

/// A cluster as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The version that it is asked to have.
    pub version: String,
    /// How it stands.
    pub status: ClusterStatus,
    /// What is the matter and what to do, where something is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Where kubectl reaches it.
    pub server: String,
    /// What controls it.
    pub control_plane: ControlPlane,
    /// What works in it.
    pub pools: Vec<NodePool>,
    /// How many of its nodes are ready.
    pub ready: u32,
    /// How many machines it has.
    pub machines: u32,
    /// The operation that last worked on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// When it was asked for, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// A machine of a cluster and its Kubernetes node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// The machine, and the name of the node.
    pub machine: String,
    /// What it is in the cluster.
    pub role: ClusterRole,
    /// The pool of a worker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// As Kubernetes tells it: `Ready`, `NotReady`, `Ready,SchedulingDisabled`,
    /// `Unknown` when nobody can tell.
    pub status: String,
    /// Of its kubelet; empty before it has joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where the machine stands in its life.
    pub phase: String,
    /// Where it is reached.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Why it is not ready, where somebody knows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A change to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalePool {
    /// How many machines it is to have.
    pub count: u32,
}

/// A pool and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// How many machines it is to have.
    pub count: u32,
    /// How many are ready.
    pub ready: u32,
    /// Which machines.
    pub instance_type: InstanceType,
    /// Labels of its nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its machines.
    pub machines: Vec<String>,
}

/// A version to go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpgradeRequest {
    /// Such as `v1.35.4`.
    pub version: String,
}

/// What an upgrade would do, and what keeps it from being begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradePlan {
    /// What it has.
    pub from: String,
    /// What it would have.
    pub to: String,
    /// What would be done, in order: the machine and what for.
    pub steps: Vec<UpgradeStep>,
    /// What must be gone first.
    pub blockers: Vec<UpgradeBlocker>,
}

/// One machine's turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStep {
    /// The machine.
    pub machine: String,
    /// What it is in the cluster.
    pub role: ClusterRole,
    /// What is installed on it now.
    pub from: String,
    /// Whether it is emptied first.
    pub drain: bool,
}

/// Something that keeps an upgrade from being begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradeBlocker {
    /// What is the matter.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

/// The versions that a cluster can go to now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct UpgradeTargets {
    /// Such as `v1.35.4`.
    pub versions: Vec<String>,
}

/// A version of Kubernetes that can be installed here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KubernetesBundle {
    /// Such as `v1.34.4`.
    pub version: String,
    /// Of etcd.
    pub etcd: String,
    /// Of CoreDNS.
    pub coredns: String,
}

/// Asks for credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeconfigRequest {
    /// For so many seconds: 600 to 604,800; 43,200 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// Credentials for a cluster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Kubeconfig {
    /// The file, as kubectl reads it.
    pub kubeconfig: String,
    /// Who its bearer is in the cluster.
    pub user: String,
    /// When it ends, in Unix milliseconds.
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

/// A snapshot of a cluster's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterSnapshot {
    /// Its id.
    pub id: String,
    /// When it was made, in Unix milliseconds.
    pub at_ms: i64,
    /// Bytes.
    pub size: u64,
    /// The version that the cluster had.
    pub version: String,
    /// Why it was made.
    pub reason: String,
}

/// Puts a cluster back to a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreCluster {
    /// The id of the snapshot, or `latest`.
    pub snapshot: String,
}

/// What would be taken for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClusterPlan {
    /// The machines to add.
    pub add: Vec<PlannedMachine>,
    /// The machines that would go, in that order.
    pub remove: Vec<PlannedMachine>,
}

/// A machine in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlannedMachine {
    /// The machine.
    pub machine: String,
    /// What it is or would be.
    pub role: ClusterRole,
    /// The pool of a worker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// Why this one.
    pub why: String,
}
