//! Plans the remediation of a cluster from its record and the latest
//! observation: dead members are replaced while free machines last, the
//! control plane first.
//!
//! Invariants:
//! - A member that joined is removed only together with a replacement of the
//!   same pool: without a free machine it stays, since it may come back. It is
//!   listed as `blocked`.
//! - A member that never joined, or was removed from Kubernetes already, is
//!   removed in any case; its place is filled when a machine is free.
//! - `status::failed_members` admits a bounded number of members per round. A
//!   blocked member must not use up that budget, so planning repeats without
//!   the blocked members until a round blocks none. Each round removes at least
//!   one candidate, so the loop ends.

use std::collections::BTreeMap;

use strata_clusters::choose;
use strata_clusters::status::{self, Work as Now};
use strata_types::Result;
use strata_types::cluster::{ClusterRole, Member};

use super::planning::{members, oldest_server};
use super::{ClusterObservation, Clusters};
use crate::core::{Cluster, now_ms};

/// What the remediation of a cluster does.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemediationPlan {
    /// Members that are added in the place of removed ones.
    pub(crate) replace: Vec<Member>,
    /// Machines of members that are removed.
    pub(crate) remove: Vec<String>,
    /// Machines of dead members that stay, since no machine is free.
    pub(crate) blocked: Vec<String>,
    /// The reason for each removal, by machine, where it was observed.
    pub(crate) why: BTreeMap<String, String>,
}

impl RemediationPlan {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.replace.is_empty() && self.remove.is_empty()
    }
}

impl Clusters {
    /// Plans the remediation that the observation calls for.
    pub(crate) fn plan_remediation(
        &self,
        cluster: &Cluster,
        observation: &ClusterObservation,
    ) -> Result<RemediationPlan> {
        let mut members = cluster.members.clone();
        let mut blocked = Vec::new();
        loop {
            let dead = status::failed_members(
                &members,
                Now::Idle,
                &observation.observed,
                &observation.memory,
                &self.remediation_delays(),
                now_ms(),
            );
            // Members that were removed or never joined, and whose operation
            // failed.
            let left = members.iter().filter(|member| !member.joined);
            let left = left.map(|member| member.machine.to_string());
            let why = dead.iter();
            let why = why.map(|one| (one.machine.to_string(), one.why.clone()));
            let why: BTreeMap<_, _> = why.collect();
            let dead = dead.iter().map(|one| one.machine.to_string());
            let mut plan = self.plan_replacement(cluster, &dead.chain(left).collect::<Vec<_>>())?;
            if plan.blocked.is_empty() {
                (plan.blocked, plan.why) = (blocked, why);
                return Ok(plan);
            }
            // The number of replacements per round is bounded: a blocked member
            // must not count against it.
            members.retain(|member| !has(&plan.blocked, member));
            blocked.append(&mut plan.blocked);
        }
    }

    /// Chooses replacements for dead and missing members (see the module
    /// documentation). The demand is what the specification lacks without
    /// `dead`, so it includes places that were empty before. A member that was
    /// blocked in an earlier round is not in `dead`: it counts as alive here,
    /// and its place is not filled.
    ///
    /// `choose_most` fills the demand in its order, the control plane first, as
    /// far as machines are free. Machines of members, also of dead ones, are no
    /// candidates until they were removed. Each place of a pool that stays
    /// empty then blocks one dead member of the pool that had joined.
    pub(super) fn plan_replacement(
        &self,
        cluster: &Cluster,
        dead: &[String],
    ) -> Result<RemediationPlan> {
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
        let mut blocked = Vec::new();
        // Members named first are replaced first, so the last are blocked.
        for id in dead.iter().rev() {
            let member = gone.iter().find(|it| it.machine.as_str() == id);
            let joined = member.filter(|member| member.joined);
            let places = joined.and_then(|member| empty.get_mut(member.pool.as_str()));
            if let Some(places) = places.filter(|places| **places > 0) {
                *places -= 1;
                blocked.push(id.clone());
            }
        }
        blocked.reverse();
        let remove = dead.iter().filter(|id| !blocked.contains(id));
        Ok(RemediationPlan {
            replace: add,
            remove: remove.cloned().collect(),
            blocked,
            why: BTreeMap::new(),
        })
    }
}

fn has(machines: &[String], member: &Member) -> bool {
    machines.iter().any(|id| id == member.machine.as_str())
}
