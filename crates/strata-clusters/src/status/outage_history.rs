//! Since when nodes are not ready and machines are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use strata_types::cluster::Member;

use crate::Observed;

/// How long is waited before a machine is abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemediationDelays {
    /// With a node that is not ready. Long enough for a reboot.
    pub not_ready: Duration,
    /// With one whose machine does not answer either.
    pub lost: Duration,
}

impl Default for RemediationDelays {
    fn default() -> Self {
        Self {
            not_ready: Duration::from_secs(5 * 60),
            lost: Duration::from_secs(60),
        }
    }
}

/// Since when, in Unix milliseconds and by machine. It does not have to outlive
/// the process: a remediation then waits a little longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutageHistory {
    /// Nodes that are not ready, or that the cluster does not know.
    pub not_ready: BTreeMap<String, i64>,
    /// Machines whose own node does not answer this server.
    pub lost: BTreeMap<String, i64>,
}

impl OutageHistory {
    /// Takes in what was seen just now, and which machines are lost.
    ///
    /// A cluster that does not answer reports nothing about its nodes, and when
    /// it answers again they need a moment to report: the wait begins again.
    pub fn note(
        &mut self,
        members: &[Member],
        seen: &Observed,
        lost: &BTreeSet<String>,
        now_ms: i64,
    ) {
        let name = |member: &Member| member.machine.as_str().to_owned();
        let absent = members.iter().filter(|member| {
            let machine = member.machine.as_str();
            let mut nodes = seen.nodes.iter();
            seen.serves && member.joined && !nodes.any(|node| node.ready && node.name == machine)
        });
        follow(&mut self.not_ready, absent.map(name).collect(), now_ms);
        let gone = members.iter().map(name).filter(|name| lost.contains(name));
        follow(&mut self.lost, gone.collect(), now_ms);
    }

    /// How long a node has not been ready.
    pub(super) fn absent(&self, machine: &str, now_ms: i64) -> Option<Duration> {
        self.not_ready
            .get(machine)
            .map(|since| between(*since, now_ms))
    }

    /// How long a machine is lost.
    pub(super) fn lost(&self, machine: &str, now_ms: i64) -> Option<Duration> {
        self.lost.get(machine).map(|since| between(*since, now_ms))
    }

    /// How long until a member is abandoned; none while nothing is the matter.
    /// A machine that is lost while its node reports to the cluster is not:
    /// the way to it is broken, and not the machine.
    pub(super) fn left(
        &self,
        machine: &str,
        max_wait: &RemediationDelays,
        now_ms: i64,
    ) -> Option<Duration> {
        let absent = self.absent(machine, now_ms)?;
        let by_node = max_wait.not_ready.saturating_sub(absent);
        let lost = self.lost(machine, now_ms);
        // Both must have lasted: the shorter counts.
        let by_machine = lost.map(|lost| max_wait.lost.saturating_sub(lost.min(absent)));
        Some(by_machine.map_or(by_node, |left| left.min(by_node)))
    }
}

/// Keeps the time of those that are still so, and begins that of new ones.
fn follow(since: &mut BTreeMap<String, i64>, now: BTreeSet<String>, now_ms: i64) {
    since.retain(|name, _| now.contains(name));
    for name in now {
        since.entry(name).or_insert(now_ms);
    }
}

/// A clock that was set back makes a wait longer, never shorter.
fn between(since: i64, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(now.saturating_sub(since)).unwrap_or(0))
}
