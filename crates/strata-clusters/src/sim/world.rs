//! What is simulated: machines, and clusters on them.

use std::collections::{BTreeMap, BTreeSet};

use strata_types::cluster::{ClusterRole, KubernetesVersion};

use crate::{Blocker, ClusterFacts, DriverError, Observed, ObservedNode, Snapshot};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedNode {
    pub role: ClusterRole,
    /// Version of the software.
    pub version: KubernetesVersion,
    /// Nothing new is put on it.
    pub cordoned: bool,
    /// A user marked it to go first.
    pub marked: bool,
    /// How many pods are on it.
    pub pods: u32,
    /// Why it is not ready though its machine is up.
    pub unwell: Option<String>,
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedCluster {
    pub name: String,
    pub id: String,
    /// Of its API servers.
    pub version: KubernetesVersion,
    /// Where it began.
    pub first: String,
    pub nodes: BTreeMap<String, SimulatedNode>,
    /// The members of etcd, by machine.
    pub etcd: BTreeSet<String>,
    /// The users with access, and their roles.
    pub users: BTreeMap<String, String>,
    /// The peers that each machine was sent.
    pub knows: BTreeMap<String, BTreeSet<String>>,
}

/// What is on a machine.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) cluster: String,
    pub(super) version: KubernetesVersion,
    pub(super) joined: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) up: bool,
    pub(super) life: u64,
    pub(super) ageing: bool,
    pub(super) holds: Option<Held>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            up: true,
            life: 0,
            ageing: false,
            holds: None,
        }
    }
}

#[derive(Default)]
pub(super) struct World {
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) clusters: BTreeMap<String, SimulatedCluster>,
    /// By name, with the cluster as it was.
    pub(super) snapshots: BTreeMap<String, Vec<(Snapshot, SimulatedCluster)>>,
    pub(super) broken_pods: Vec<String>,
    pub(super) slow_drains: u32,
    pub(super) blockers: Vec<Blocker>,
    pub(super) violations: Vec<String>,
}

impl World {
    pub(super) fn machine(&mut self, name: &str) -> &mut Machine {
        self.machines.entry(name.into()).or_default()
    }

    /// A machine that is up.
    pub(super) fn up(&mut self, name: &str) -> Result<&mut Machine, DriverError> {
        let machine = self.machine(name);
        match machine.up {
            true => Ok(machine),
            false => Err(DriverError::Unreachable {
                machine: name.into(),
                why: "it is down".into(),
            }),
        }
    }

    /// Notes what no operation may try, and refuses it.
    pub(super) fn violation(&mut self, what: &str, machine: &str, why: String) -> DriverError {
        self.violations.push(format!("{what} {machine}: {why}"));
        failed(what, machine, why)
    }

    /// Whether the machine is up and runs what it joined with.
    pub(super) fn lives(&self, id: &str, machine: &str) -> bool {
        self.machines.get(machine).is_some_and(|machine| {
            let held = machine.holds.as_ref();
            machine.up && held.is_some_and(|held| held.joined && held.cluster == id)
        })
    }

    /// How many members of etcd answer.
    pub(super) fn voters(&self, cluster: &SimulatedCluster) -> usize {
        let etcd = cluster.etcd.iter();
        etcd.filter(|machine| self.lives(&cluster.id, machine))
            .count()
    }

    /// Whether etcd decides, and so the API answers.
    pub(super) fn serves(&self, cluster: &SimulatedCluster) -> bool {
        self.voters(cluster) * 2 > cluster.etcd.len()
    }

    /// The cluster, when it answers.
    pub(super) fn serving(
        &mut self,
        facts: &ClusterFacts,
    ) -> Result<&mut SimulatedCluster, DriverError> {
        let Some(cluster) = self.clusters.get(&facts.id) else {
            return Err(DriverError::Silent("it was not begun".into()));
        };
        if !self.serves(cluster) {
            let (voters, all) = (self.voters(cluster), cluster.etcd.len());
            let why = format!("etcd has {voters} of {all} members");
            return Err(DriverError::Silent(why));
        }
        let cluster = self.clusters.get_mut(&facts.id);
        cluster.ok_or_else(|| DriverError::Silent("it was not begun".into()))
    }

    pub(super) fn observe(&self, facts: &ClusterFacts) -> Observed {
        let Some(cluster) = self.clusters.get(&facts.id) else {
            return Observed {
                why: "it was not begun".into(),
                ..Observed::default()
            };
        };
        let etcd = cluster.etcd.iter();
        let etcd = etcd
            .map(|name| (name.clone(), self.lives(&cluster.id, name)))
            .collect();
        if !self.serves(cluster) {
            return Observed {
                why: "etcd has no majority".into(),
                etcd,
                ..Observed::default()
            };
        }
        let nodes = cluster.nodes.iter();
        Observed {
            serves: true,
            why: String::new(),
            version: cluster.version.to_string(),
            nodes: nodes
                .map(|(name, node)| self.observed(cluster, name, node))
                .collect(),
            etcd,
            broken_pods: self.broken_pods.clone(),
        }
    }

    fn observed(
        &self,
        cluster: &SimulatedCluster,
        name: &str,
        node: &SimulatedNode,
    ) -> ObservedNode {
        let reason = match self.lives(&cluster.id, name) {
            true => node.unwell.clone(),
            false => Some("Kubelet stopped posting node status.".into()),
        };
        ObservedNode {
            name: name.into(),
            ready: reason.is_none(),
            reason: reason.unwrap_or_default(),
            version: node.version.to_string(),
            unschedulable: node.cordoned,
            marked: node.marked,
        }
    }

    pub(super) fn peers_are_current(&self, cluster: &SimulatedCluster) -> bool {
        let mut nodes = cluster.nodes.keys();
        nodes.all(|name| {
            let knows = cluster.knows.get(name);
            let mut others = cluster.nodes.keys();
            !self.lives(&cluster.id, name)
                || others.all(|other| knows.is_some_and(|knows| knows.contains(other)))
        })
    }

    pub(super) fn leftovers(&self) -> Vec<String> {
        let clusters = self.clusters.values();
        let clusters = clusters.map(|cluster| format!("cluster {}", cluster.name));
        let snapshots = self.snapshots.iter();
        let snapshots = snapshots.map(|(name, all)| format!("{} snapshots of {name}", all.len()));
        let machines = self.machines.iter().filter_map(|(name, machine)| {
            let held = machine.holds.as_ref()?;
            Some(format!("machine {name} holds cluster {}", held.cluster))
        });
        clusters.chain(snapshots).chain(machines).collect()
    }
}

pub(super) fn failed(what: &str, machine: &str, why: String) -> DriverError {
    DriverError::Failed {
        what: what.into(),
        machine: machine.into(),
        why,
        passing: false,
    }
}
