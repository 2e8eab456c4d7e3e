//! Which machines of a cluster are abandoned and replaced.
//!
//! What cannot be undone is done slowly. A split of the network looks like
//! many dead machines, and must not have a whole cluster rebuilt: at most a
//! third of the workers at once, one member of the control plane at a time,
//! and that only when the rest of etcd decides without it. A node that reports
//! to its cluster is never touched, whatever else is the matter with it, nor
//! is one that has not joined: the operation that takes it answers for it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use strata_types::cluster::{ClusterRole, Member};
use strata_types::machine::MachineId;

use super::{OutageHistory, RemediationDelays, Work};
use crate::Observed;

/// A member to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMember {
    /// Id of the machine.
    pub machine: MachineId,
    pub role: ClusterRole,
    /// The reason, for people.
    pub why: String,
}

/// Decides which members to replace now, the control plane first and then those
/// that have been dead longest. None while anything is under way, and none
/// while the cluster does not answer: then nothing is known about its nodes.
pub fn failed_members(
    members: &[Member],
    work: Work<'_>,
    seen: &Observed,
    outage_history: &OutageHistory,
    max_wait: &RemediationDelays,
    now_ms: i64,
) -> Vec<FailedMember> {
    if work != Work::Idle || !seen.serves {
        return Vec::new();
    }
    let given_up = |member: &&Member| {
        let machine = member.machine.as_str();
        let mut nodes = seen.nodes.iter();
        let reports = nodes.any(|node| node.ready && node.name == machine);
        let left = outage_history.left(machine, max_wait, now_ms);
        member.joined && !reports && left.is_some_and(|left| left.is_zero())
    };
    let mut dead: Vec<_> = members.iter().filter(given_up).collect();
    dead.sort_by_key(|member| {
        let absent = outage_history.absent(member.machine.as_str(), now_ms);
        (Reverse(absent), member.number, member.machine.clone())
    });
    let workers = members.iter().filter(|m| m.role == ClusterRole::Worker);
    let most = (workers.count() / 3).max(1);
    let control = dead
        .iter()
        .filter(|member| member.role == ClusterRole::ControlPlane)
        .find(|member| decides_without(&seen.etcd, member.machine.as_str()));
    let workers = dead.iter().filter(|m| m.role == ClusterRole::Worker);
    let chosen = control.into_iter().chain(workers.take(most));
    chosen
        .map(|member| FailedMember {
            machine: member.machine.clone(),
            role: member.role,
            why: why(member.machine.as_str(), outage_history, now_ms),
        })
        .collect()
}

/// Whether etcd has a majority without this one: it must, to let it go.
fn decides_without(etcd: &BTreeMap<String, bool>, machine: &str) -> bool {
    let others = etcd.iter().filter(|(name, _)| *name != machine);
    let answer = others.filter(|(_, answers)| **answers).count();
    answer * 2 > etcd.len()
}

fn why(machine: &str, outage_history: &OutageHistory, now_ms: i64) -> String {
    let absent = outage_history.absent(machine, now_ms).unwrap_or_default();
    let node = format!(
        "its node has not been ready for {}",
        super::problems::span(absent)
    );
    match outage_history.lost(machine, now_ms) {
        Some(_) => format!("{node}, and the machine does not answer"),
        None => node,
    }
}
