//! What can be done about members that died, decided from records and from
//! what was seen: as many are replaced as there are machines for, the control
//! plane first. Whoever has to wait keeps nobody else from being replaced.

use std::collections::BTreeMap;

use strata_clusters::choose;
use strata_clusters::status::{self, Work as Now};
use strata_types::Result;
use strata_types::cluster::{ClusterRole, Member};

use super::plans::{members, oldest_server};
use super::{Clusters, Seen};
use crate::core::{Cluster, now_ms};

/// What healing a cluster comes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cure {
    /// Who comes.
    pub(crate) add: Vec<Member>,
    /// Who goes.
    pub(crate) bury: Vec<String>,
    /// Who died and stays, since no machine is free for the place.
    pub(crate) waiting: Vec<String>,
    /// Why whoever goes was given up, in words, where the cluster told.
    pub(crate) why: BTreeMap<String, String>,
}

impl Cure {
    /// Whether nothing can be done now.
    pub(crate) fn is_nothing(&self) -> bool {
        self.add.is_empty() && self.bury.is_empty()
    }
}

impl Clusters {
    /// What to do now about what was seen.
    pub(crate) fn cure(&self, cluster: &Cluster, seen: &Seen) -> Result<Cure> {
        let mut members = cluster.members.clone();
        let mut waiting = Vec::new();
        loop {
            let dead = status::heal(
                &members,
                Now::Idle,
                &seen.observed,
                &seen.memory,
                &self.patience(),
                now_ms(),
            );
            // What was forgotten, or never joined, and whose operation did not
            // end well.
            let left = members.iter().filter(|member| !member.joined);
            let left = left.map(|member| member.machine.to_string());
            let why = dead.iter();
            let why = why.map(|one| (one.machine.to_string(), one.why.clone()));
            let why: BTreeMap<_, _> = why.collect();
            let dead = dead.iter().map(|one| one.machine.to_string());
            let mut cure = self.plan_cure(cluster, &dead.chain(left).collect::<Vec<_>>())?;
            if cure.waiting.is_empty() {
                (cure.waiting, cure.why) = (waiting, why);
                return Ok(cure);
            }
            // Only so many are replaced at once: whoever cannot be does not
            // take the turn of those who can.
            members.retain(|member| !has(&cure.waiting, member));
            waiting.append(&mut cure.waiting);
        }
    }

    /// Who would take the places of these, and of those that are missing. A
    /// member without a successor stays: it may come back. One that has left
    /// the cluster goes in any case, and its place is filled when it can be,
    /// by the same machine perhaps.
    pub(super) fn plan_cure(&self, cluster: &Cluster, dead: &[String]) -> Result<Cure> {
        let (gone, lives): (Vec<_>, Vec<_>) = cluster
            .members
            .iter()
            .cloned()
            .partition(|member| has(dead, member));
        let wants = choose::changes(&cluster.spec, &lives).add;
        let mut empty: BTreeMap<&str, u32> = BTreeMap::new();
        for want in &wants {
            *empty.entry(want.pool.as_str()).or_default() += want.count;
        }
        let choices = match wants.is_empty() {
            true => Vec::new(),
            false => choose::choose_most(&self.candidates(), &wants, &cluster.members)?,
        };
        for choice in &choices {
            if let Some(places) = empty.get_mut(choice.pool.as_str()) {
                *places = places.saturating_sub(1);
            }
        }
        let mut add = members(&choices, oldest_server(cluster));
        let controls = add.iter_mut();
        for member in controls.filter(|it| it.role == ClusterRole::ControlPlane) {
            member.version = cluster.spec.version;
        }
        let mut waiting = Vec::new();
        // Whoever is named first goes first.
        for id in dead.iter().rev() {
            let member = gone.iter().find(|it| it.machine.as_str() == id);
            let joined = member.filter(|member| member.joined);
            let places = joined.and_then(|member| empty.get_mut(member.pool.as_str()));
            if let Some(places) = places.filter(|places| **places > 0) {
                *places -= 1;
                waiting.push(id.clone());
            }
        }
        waiting.reverse();
        let bury = dead.iter().filter(|id| !waiting.contains(id));
        Ok(Cure {
            add,
            bury: bury.cloned().collect(),
            waiting,
            why: BTreeMap::new(),
        })
    }
}

fn has(machines: &[String], member: &Member) -> bool {
    machines.iter().any(|id| id == member.machine.as_str())
}
