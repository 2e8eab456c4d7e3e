//! How a simulated cluster changes its version, and is restored.

use std::time::{SystemTime, UNIX_EPOCH};

use strata_types::cluster::{ClusterRole, KubernetesVersion, Member};

use super::world::{SimulatedCluster, World, failed};
use crate::{Blocker, ClusterFacts, DriverError, Preflight, Snapshot, skew};

impl World {
    pub(super) fn preflight(
        &mut self,
        facts: &ClusterFacts,
        to: KubernetesVersion,
    ) -> Result<Preflight, DriverError> {
        let from = self.serving(facts)?.version;
        let seen = self.observe(facts);
        let mut blockers = self.blockers.clone();
        let ill = seen.nodes.iter().filter(|node| !node.ready);
        blockers.extend(ill.map(|node| Blocker {
            what: format!("{} is NotReady", node.name),
            hint: "wait until it is replaced".into(),
        }));
        let cluster = self.serving(facts)?;
        let oldest = cluster.nodes.values().map(|node| node.version).min();
        let skewed = match from == to {
            // It is gone on with.
            true => None,
            false => skew::may_go(from, oldest.unwrap_or(from), to).err(),
        };
        blockers.extend(skewed.map(|error| Blocker {
            what: error.to_string(),
            hint: "ask for another version".into(),
        }));
        Ok(Preflight { blockers })
    }

    pub(super) fn upgrade(
        &mut self,
        facts: &ClusterFacts,
        member: &Member,
        to: KubernetesVersion,
        first: bool,
    ) -> Result<(), DriverError> {
        let name = member.machine.as_str();
        self.up(name)?;
        let cluster = self.serving(facts)?.clone();
        let Some(node) = cluster.nodes.get(name) else {
            return Err(self.violation("upgrade", name, "it has not joined".into()));
        };
        if !self.lives(&facts.id, name) {
            let why = "what it joined with was erased".into();
            return Err(failed("upgrade", name, why));
        }
        if let Err(why) = in_turn(&cluster, name, to, first) {
            return Err(self.violation("upgrade", name, why));
        }
        if node.role == ClusterRole::Worker && node.pods > 0 && node.version != to {
            let why = format!("{} pods run on it, and it was not drained", node.pods);
            return Err(self.violation("upgrade", name, why));
        }
        // Its member of etcd goes away for a moment.
        let others = self.voters(&cluster) - 1;
        let alone = cluster.etcd.len() == 1;
        if cluster.etcd.contains(name) && !alone && others * 2 <= cluster.etcd.len() {
            return Err(DriverError::Failed {
                what: "upgrade".into(),
                machine: name.into(),
                why: "etcd would have no majority meanwhile".into(),
                passing: true,
            });
        }
        let cluster = self.serving(facts)?;
        if first {
            cluster.version = to;
        }
        if let Some(node) = cluster.nodes.get_mut(name) {
            node.version = to;
        }
        if let Some(held) = &mut self.machine(name).holds {
            held.version = to;
        }
        Ok(())
    }

    pub(super) fn snapshot(
        &mut self,
        facts: &ClusterFacts,
        reason: &str,
    ) -> Result<Snapshot, DriverError> {
        let cluster = self.serving(facts)?.clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let at_ms = now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        let cluster_config = self.snapshots.entry(cluster.name.clone()).or_default();
        let snapshot = Snapshot {
            id: format!("{at_ms}-{}.db", cluster_config.len()),
            at_ms,
            size: 1 << 20,
            version: cluster.version,
            reason: reason.into(),
        };
        cluster_config.push((snapshot.clone(), cluster));
        Ok(snapshot)
    }

    pub(super) fn restore(
        &mut self,
        facts: &ClusterFacts,
        snapshot: &str,
    ) -> Result<Vec<String>, DriverError> {
        let cluster_config = self.snapshots.get(facts.name.as_str());
        let mut cluster_config = cluster_config.into_iter().flatten();
        let Some((_, then)) = cluster_config
            .find(|(cluster_config, _)| cluster_config.id == snapshot)
            .cloned()
        else {
            let why = format!("there is no snapshot {snapshot}");
            return Err(DriverError::Refused(why));
        };
        let controls = facts.members.iter();
        let controls = controls.filter(|member| member.role == ClusterRole::ControlPlane);
        let up: Vec<String> = controls
            .map(|member| member.machine.as_str().to_owned())
            .filter(|name| self.lives(&facts.id, name))
            .collect();
        let Some(first) = up.first().cloned() else {
            return Err(DriverError::Unreachable {
                machine: "the control plane".into(),
                why: "none of its machines is up".into(),
            });
        };
        // What came since then reports again by itself.
        let mut nodes = then.nodes;
        if let Some(now) = self.clusters.get(&facts.id) {
            let alive = now
                .nodes
                .iter()
                .filter(|(name, _)| self.lives(&facts.id, name));
            nodes.extend(alive.map(|(name, node)| (name.clone(), node.clone())));
        }
        for name in &up {
            if let Some(node) = nodes.get_mut(name) {
                node.version = then.version;
            }
            if let Some(held) = &mut self.machine(name).holds {
                held.version = then.version;
            }
        }
        let knows = self.clusters.remove(&facts.id).map(|now| now.knows);
        let restored = SimulatedCluster {
            id: facts.id.clone(),
            first,
            nodes,
            etcd: up.iter().cloned().collect(),
            knows: knows.unwrap_or_default(),
            ..then
        };
        self.clusters.insert(facts.id.clone(), restored);
        Ok(up)
    }
}

/// Whether it is this member's turn: the control plane goes before, and by the
/// rules of Kubernetes.
fn in_turn(
    cluster: &SimulatedCluster,
    name: &str,
    to: KubernetesVersion,
    first: bool,
) -> Result<(), String> {
    let Some(node) = cluster.nodes.get(name) else {
        return Err("it has not joined".into());
    };
    let server = cluster.version;
    if first {
        return match node.role {
            ClusterRole::Worker => Err("a worker cannot be the first".into()),
            ClusterRole::ControlPlane if server == to => Ok(()),
            ClusterRole::ControlPlane => {
                let oldest = cluster.nodes.values().map(|node| node.version).min();
                skew::may_go(server, oldest.unwrap_or(server), to).map_err(|e| e.to_string())
            }
        };
    }
    if server != to {
        return Err(format!("the control plane has {server}, and not {to}"));
    }
    let mut nodes = cluster.nodes.values();
    let waits = nodes.any(|node| node.role == ClusterRole::ControlPlane && node.version != to);
    match node.role == ClusterRole::Worker && waits {
        true => Err("not all of the control plane were upgraded before".into()),
        false => Ok(()),
    }
}
