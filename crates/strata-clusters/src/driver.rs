//! The one trait between a cluster's operations and Kubernetes itself.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use strata_types::Secret;
use strata_types::cluster::{ClusterName, KubernetesVersion, Member, PodSecurityLevel};

/// A cluster as a driver needs to know it.
#[derive(Clone, Debug)]
pub struct ClusterFacts {
    pub name: ClusterName,
    /// Its id, which another cluster of the same name does not have.
    pub id: String,
    /// The version of its control plane.
    pub version: KubernetesVersion,
    /// How many machines are to control it, which is settled when it is made.
    pub controls: u32,
    /// What its API servers enforce for pods; none for a cluster from before it
    /// could be chosen, which enforces nothing.
    pub pod_security: Option<PodSecurityLevel>,
    /// All that were taken for it, joined or not.
    pub members: Vec<Member>,
    /// Its CAs and keys: PEM by the name of the file, as
    /// [`Driver::secrets`] made them.
    pub secrets: BTreeMap<String, Secret>,
}

impl ClusterFacts {
    /// A member by its machine.
    pub fn member(&self, machine: &str) -> Option<&Member> {
        let mut members = self.members.iter();
        members.find(|member| member.machine.as_str() == machine)
    }
}

/// A Kubernetes node as its cluster reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedNode {
    /// Its name: the machine's.
    pub name: String,
    /// Whether it takes part.
    pub ready: bool,
    /// Why not, in the words of Kubernetes.
    #[serde(default)]
    pub reason: String,
    /// Of its kubelet, as `v1.34.4`.
    #[serde(default)]
    pub version: String,
    /// Nothing new is put on it.
    #[serde(default)]
    pub unschedulable: bool,
    /// A user marked it to go first (`cluster.k8s.io/delete-machine`).
    #[serde(default)]
    pub marked: bool,
}

/// The observation of a cluster at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Whether its API answers that it is ready.
    pub serves: bool,
    /// Why not.
    pub why: String,
    /// Of the API server that answered, as `v1.34.4`.
    pub version: String,
    pub nodes: Vec<ObservedNode>,
    /// Members of etcd that answer, by machine. Empty when no member could
    /// report.
    pub etcd: BTreeMap<String, bool>,
    /// Pods of the system that should run and do not: `kube-system/coredns-…`.
    pub broken_pods: Vec<String>,
}

/// Something that keeps an upgrade from being begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// What is the matter.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

/// What was found before an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// All of these must be gone first.
    pub blockers: Vec<Blocker>,
}

/// How a drain ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Drained {
    /// Nothing that could be moved is left.
    Empty,
    /// These do not go: a disruption budget keeps them.
    Waiting(Vec<String>),
}

/// A snapshot of a cluster's etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The name of its file.
    pub id: String,
    /// When it was made, in Unix milliseconds.
    pub at_ms: i64,
    /// Bytes.
    pub size: u64,
    /// The version that the cluster had.
    pub version: KubernetesVersion,
    /// Why it was made: `before upgrade to v1.35.4`, `schedule`, `asked`.
    pub reason: String,
}

/// What went wrong at a machine or at a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// A machine's node does not answer, or a tunnel broke: the same again may
    /// work.
    #[error("{machine} does not answer: {why}")]
    Unreachable {
        /// Id of the machine.
        machine: String,
        /// The reason, for people.
        why: String,
    },
    /// The cluster's API does not answer.
    #[error("the API of the cluster does not answer: {0}")]
    Silent(String),
    /// A command on a machine failed.
    #[error("{what} failed on {machine}: {why}")]
    Failed {
        /// What was tried: `kubeadm init`.
        what: String,
        /// Id of the machine.
        machine: String,
        /// The end of what it printed.
        why: String,
        /// Whether the same again may work.
        passing: bool,
    },
    #[error("the cluster refused: {0}")]
    Refused(String),
    /// What is needed for this version is not here.
    #[error("{what} is not here; {hint}")]
    Missing {
        /// The subject, for people.
        what: String,
        /// How to get it.
        hint: String,
    },
    /// Files of this server.
    #[error("{what}: {why}")]
    Files {
        /// The subject, for people.
        what: String,
        /// The reason, for people.
        why: String,
    },
    #[error("{what}: {why}")]
    Secrets {
        /// The subject, for people.
        what: String,
        /// The reason, for people.
        why: String,
    },
}

impl DriverError {
    /// Whether the same again may work.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Silent(_) => true,
            Self::Failed { passing, .. } => *passing,
            Self::Refused(_) | Self::Missing { .. } | Self::Files { .. } | Self::Secrets { .. } => {
                false
            }
        }
    }
}

/// The result of a driver's call.
pub type Done<'a, T = ()> = BoxFuture<'a, Result<T, DriverError>>;

/// Makes Kubernetes out of machines that are up.
///
/// All calls are **idempotent**: a caller that was killed in the middle calls
/// again, and the second call finds what the first has made and goes on. Every
/// call takes bounded time by itself. `progress` receives what is being done,
/// for people.
pub trait Driver: Send + Sync + 'static {
    /// Makes the CAs and keys of a new cluster.
    fn secrets(&self, name: &ClusterName) -> Result<BTreeMap<String, Secret>, DriverError>;

    /// Puts what the member needs on its machine and starts what runs below
    /// Kubernetes: containers, the network, the way to the API.
    fn install<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: &'a (dyn Fn(String) + Send + Sync),
    ) -> Done<'a>;

    /// Puts the images of its version on a member's machine. Nothing of
    /// Kubernetes runs there before, but all else may be made ready meanwhile.
    fn images<'a>(
        &'a self,
        member: &'a Member,
        progress: &'a (dyn Fn(String) + Send + Sync),
    ) -> Done<'a>;

    /// Makes the first machine the control plane, whose API serves afterwards.
    fn init<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: &'a (dyn Fn(String) + Send + Sync),
    ) -> Done<'a>;

    /// Joins a further machine, by its role. What it joins with ends with the
    /// call.
    fn join<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: &'a (dyn Fn(String) + Send + Sync),
    ) -> Done<'a>;

    /// Waits until a member that came in takes part, and gives its node the
    /// labels it is to have.
    fn ready<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        progress: &'a (dyn Fn(String) + Send + Sync),
    ) -> Done<'a>;

    /// Sends the list of members to the machines that are up. Those that do not
    /// answer are left out.
    fn update_peers<'a>(&'a self, cluster: &'a ClusterFacts) -> Done<'a>;

    fn observe<'a>(&'a self, cluster: &'a ClusterFacts) -> BoxFuture<'a, Observed>;

    /// Has nothing new put on a node, or again.
    fn cordon<'a>(&'a self, cluster: &'a ClusterFacts, node: &'a str, closed: bool) -> Done<'a>;

    /// Moves off a node what can be moved, respecting disruption budgets, for a
    /// bounded time; called again, it goes on.
    fn drain<'a>(&'a self, cluster: &'a ClusterFacts, node: &'a str) -> Done<'a, Drained>;

    /// Has the cluster remove a node: its member of etcd, where it had one,
    /// and the node itself. One that is gone already is fine.
    fn remove_member<'a>(&'a self, cluster: &'a ClusterFacts, member: &'a Member) -> Done<'a>;

    /// Checks whether anything keeps an upgrade from being begun.
    fn preflight<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        to: KubernetesVersion,
    ) -> Done<'a, Preflight>;

    /// Brings one member to a version: the first of the control plane, a
    /// further one, or a worker, as `first` and its role say.
    fn upgrade<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        member: &'a Member,
        to: KubernetesVersion,
        first: bool,
        progress: &'a (dyn Fn(String) + Send + Sync),
    ) -> Done<'a>;

    /// Makes a snapshot of etcd, and keeps it on this server.
    fn snapshot<'a>(&'a self, cluster: &'a ClusterFacts, reason: &'a str) -> Done<'a, Snapshot>;

    /// The snapshots of a cluster, the oldest first.
    fn snapshots(&self, name: &ClusterName) -> Result<Vec<Snapshot>, DriverError>;

    /// Puts the control plane back to a snapshot: all its members that are up
    /// begin again from it, with the version that the snapshot was made of.
    /// Gives the machines that did: a member of the control plane that is not
    /// among them is no member of etcd any more.
    fn restore<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        snapshot: &'a str,
        progress: &'a (dyn Fn(String) + Send + Sync),
    ) -> Done<'a, Vec<String>>;

    /// Puts the configuration of the API servers, which names the key that
    /// Secrets are encrypted with, on the machines of the control plane. They
    /// take it up by themselves, within a minute. Machines that do not answer
    /// are left out: they read what is encrypted all the same.
    fn configure<'a>(&'a self, cluster: &'a ClusterFacts) -> Done<'a>;

    /// Renews certificates of a member that end soon. Whether any was.
    fn renew<'a>(&'a self, cluster: &'a ClusterFacts, member: &'a Member) -> Done<'a, bool>;

    /// Lets a user in with a role (`cluster-admin`, `view`, or `edit`: in the
    /// namespace `default`, and `view` elsewhere), or out again with none.
    fn grant_access<'a>(
        &'a self,
        cluster: &'a ClusterFacts,
        user: &'a str,
        role: Option<&'a str>,
    ) -> Done<'a>;

    /// A kubeconfig for a user, with a certificate that ends after so many
    /// seconds, for the API at this address.
    fn kubeconfig(
        &self,
        cluster: &ClusterFacts,
        user: &str,
        server: &str,
        seconds: u64,
    ) -> Result<Secret, DriverError>;

    /// Whatever this server keeps of a cluster that is gone.
    fn clear(&self, name: &ClusterName) -> Result<(), DriverError>;
}
