//! How machines come into a simulated cluster, work, and go.

use std::collections::BTreeSet;

use strata_types::cluster::{ClusterRole, Member};

use super::world::{Held, SimulatedCluster, SimulatedNode, World, failed};
use crate::{ClusterFacts, Drained, DriverError, skew};

impl World {
    pub(super) fn install(
        &mut self,
        facts: &ClusterFacts,
        member: &Member,
    ) -> Result<(), DriverError> {
        let name = member.machine.as_str();
        if facts.secrets.is_empty() {
            return Err(self.violation("install", name, "the cluster has no secrets".into()));
        }
        let numbers: BTreeSet<u8> = facts.members.iter().map(|member| member.number).collect();
        if numbers.len() != facts.members.len() || numbers.contains(&0) {
            let why = "two members have the same number, or one has none".into();
            return Err(self.violation("install", name, why));
        }
        let machine = self.up(name)?;
        match &mut machine.holds {
            Some(held) if held.cluster != facts.id => {
                let why = format!("it holds the cluster {} and was not wiped", held.cluster);
                Err(self.violation("install", name, why))
            }
            Some(held) => {
                if !held.joined {
                    held.version = member.version;
                }
                Ok(())
            }
            None => {
                machine.holds = Some(Held {
                    cluster: facts.id.clone(),
                    version: member.version,
                    joined: false,
                });
                Ok(())
            }
        }
    }

    /// That what a member needs is on its machine.
    fn installed(
        &mut self,
        what: &str,
        facts: &ClusterFacts,
        member: &Member,
    ) -> Result<&mut Held, DriverError> {
        let name = member.machine.as_str();
        let held = self.up(name)?.holds.as_ref();
        let there = held.is_some_and(|held| {
            held.cluster == facts.id && (held.joined || held.version == member.version)
        });
        if !there {
            let why = "nothing of this cluster and version was installed".into();
            return Err(self.violation(what, name, why));
        }
        let held = self.machine(name).holds.as_mut();
        held.ok_or_else(|| failed(what, name, "nothing was installed".into()))
    }

    pub(super) fn images(&mut self, member: &Member) -> Result<(), DriverError> {
        let name = member.machine.as_str();
        match self.up(name)?.holds {
            Some(_) => Ok(()),
            None => Err(self.violation("images", name, "nothing was installed".into())),
        }
    }

    pub(super) fn init(
        &mut self,
        facts: &ClusterFacts,
        member: &Member,
    ) -> Result<(), DriverError> {
        let name = member.machine.as_str();
        if member.role != ClusterRole::ControlPlane {
            return Err(self.violation("init", name, "it is a worker".into()));
        }
        self.installed("init", facts, member)?;
        if let Some(begun) = self.clusters.get(&facts.id) {
            let first = begun.first.clone();
            if first == name && self.lives(&facts.id, name) {
                return Ok(());
            }
            // Whatever is left of it elsewhere would be lost by beginning
            // again.
            let held = |machine: &&String| {
                let held = self.machines.get(*machine).and_then(|m| m.holds.as_ref());
                held.is_some_and(|held| held.joined && held.cluster == facts.id)
            };
            if begun.etcd.iter().any(|machine| held(&machine)) {
                let why = format!("the cluster was begun on {first}");
                return Err(self.violation("init", name, why));
            }
        }
        self.installed("init", facts, member)?.joined = true;
        let cluster = SimulatedCluster {
            name: facts.name.as_str().into(),
            id: facts.id.clone(),
            version: member.version,
            first: name.into(),
            nodes: [(name.into(), fresh(member))].into(),
            etcd: [name.into()].into(),
            users: [].into(),
            knows: [].into(),
        };
        self.clusters.insert(facts.id.clone(), cluster);
        Ok(())
    }

    pub(super) fn join(
        &mut self,
        facts: &ClusterFacts,
        member: &Member,
    ) -> Result<(), DriverError> {
        let name = member.machine.as_str();
        let joined = self.installed("join", facts, member)?.joined;
        if !self.clusters.contains_key(&facts.id) {
            let why = "the cluster was not begun".into();
            return Err(self.violation("join", name, why));
        }
        let cluster = self.serving(facts)?;
        let control = member.role == ClusterRole::ControlPlane;
        if joined && cluster.nodes.contains_key(name) {
            return Ok(());
        }
        if cluster.etcd.contains(name) {
            let why = "etcd has a dead member of this name, which was not removed".into();
            return Err(failed("join", name, why));
        }
        let server = cluster.version;
        let fits = match control {
            true if member.version.is_sibling(server) => Ok(()),
            true => Err(format!(
                "{} cannot control a cluster of {server}",
                member.version
            )),
            false => skew::may_join(member.version, server).map_err(|error| error.to_string()),
        };
        if let Err(why) = fits {
            return Err(self.violation("join", name, why));
        }
        cluster.nodes.insert(name.into(), fresh(member));
        if control {
            cluster.etcd.insert(name.into());
        }
        self.installed("join", facts, member)?.joined = true;
        Ok(())
    }

    pub(super) fn ready(
        &mut self,
        facts: &ClusterFacts,
        member: &Member,
    ) -> Result<(), DriverError> {
        let name = member.machine.as_str();
        let up = self.machine(name).up;
        let there = self.serving(facts)?.nodes.contains_key(name);
        match (there, up) {
            (true, true) => Ok(()),
            (true, false) => Err(failed("ready", name, "it is down".into())),
            (false, _) => Err(self.violation("ready", name, "it has not come in".into())),
        }
    }

    pub(super) fn update_peers(&mut self, facts: &ClusterFacts) {
        let names = facts.members.iter().map(|member| member.machine.as_str());
        let names: BTreeSet<String> = names.map(Into::into).collect();
        let up = |name: &&String| self.machines.get(*name).is_some_and(|machine| machine.up);
        let reported: Vec<String> = names.iter().filter(up).cloned().collect();
        if let Some(cluster) = self.clusters.get_mut(&facts.id) {
            cluster
                .knows
                .extend(reported.into_iter().map(|name| (name, names.clone())));
        }
    }

    pub(super) fn cordon(
        &mut self,
        facts: &ClusterFacts,
        node: &str,
        closed: bool,
    ) -> Result<(), DriverError> {
        let cluster = self.serving(facts)?;
        match cluster.nodes.get_mut(node) {
            Some(node) => node.cordoned = closed,
            None => return Err(DriverError::Refused(format!("there is no node {node}"))),
        }
        Ok(())
    }

    pub(super) fn drain(
        &mut self,
        facts: &ClusterFacts,
        node: &str,
    ) -> Result<Drained, DriverError> {
        self.serving(facts)?;
        if self.slow_drains > 0 {
            self.slow_drains -= 1;
            return Ok(Drained::Waiting(vec!["default/simulated".into()]));
        }
        let seen = self.observe(facts);
        let open = |name: &str| {
            let mut nodes = seen.nodes.iter();
            nodes.any(|node| node.name == name && node.ready && !node.unschedulable)
        };
        let cluster = self.serving(facts)?;
        let Some(leaving) = cluster.nodes.get_mut(node) else {
            return Ok(Drained::Empty);
        };
        leaving.cordoned = true;
        let pods = leaving.pods;
        let mut others = cluster.nodes.iter_mut();
        let refuge = others
            .find(|(name, other)| *name != node && other.role == ClusterRole::Worker && open(name));
        match refuge {
            Some((_, refuge)) => refuge.pods += pods,
            None if pods == 0 => {}
            None => return Ok(Drained::Waiting(vec!["default/simulated".into()])),
        }
        if let Some(leaving) = cluster.nodes.get_mut(node) {
            leaving.pods = 0;
        }
        Ok(Drained::Empty)
    }

    pub(super) fn remove_member(
        &mut self,
        facts: &ClusterFacts,
        member: &Member,
    ) -> Result<(), DriverError> {
        let name = member.machine.as_str();
        let cluster = self.serving(facts)?.clone();
        let lives = self.lives(&facts.id, name);
        if cluster.etcd.contains(name) {
            if cluster.etcd.len() == 1 {
                let why = "it is the last of the control plane".into();
                return Err(self.violation("remove_member", name, why));
            }
            let others = self.voters(&cluster) - usize::from(lives);
            if others * 2 < cluster.etcd.len() {
                let why = "etcd would have no majority without it".into();
                return Err(DriverError::Refused(why));
            }
        }
        let pods = cluster.nodes.get(name).map_or(0, |node| node.pods);
        if lives && pods > 0 {
            let why = format!("{pods} pods run on it, and it was not drained");
            return Err(self.violation("remove_member", name, why));
        }
        let cluster = self.serving(facts)?;
        cluster.etcd.remove(name);
        cluster.nodes.remove(name);
        cluster.knows.remove(name);
        if let Some(held) = &mut self.machine(name).holds {
            held.joined &= held.cluster != facts.id;
        }
        Ok(())
    }
}

fn fresh(member: &Member) -> SimulatedNode {
    SimulatedNode {
        role: member.role,
        version: member.version,
        cordoned: false,
        marked: false,
        pods: 0,
        unwell: None,
        labels: member.labels.clone(),
    }
}
