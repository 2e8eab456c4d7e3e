//! Which workers go when a pool gets smaller.

use std::cmp::Reverse;

use strata_types::cluster::{ClusterRole, Member};
use strata_types::machine::MachineId;

use crate::Observed;

/// Why a worker goes before another.
#[derive(Clone, Copy)]
enum Reason {
    NeverJoined,
    Gone,
    NotReady,
    Marked,
    Newest,
}

impl Reason {
    fn of(member: &Member, seen: &Observed) -> Self {
        if !member.joined {
            return Self::NeverJoined;
        }
        // When the cluster does not report, no member is missing in what it
        // reports.
        if !seen.serves {
            return Self::Newest;
        }
        let mut nodes = seen.nodes.iter();
        match nodes.find(|node| node.name == member.machine.as_str()) {
            None => Self::Gone,
            Some(node) if !node.ready => Self::NotReady,
            Some(node) if node.marked => Self::Marked,
            Some(_) => Self::Newest,
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::NeverJoined => "it never joined",
            Self::Gone => "the cluster does not know it any more",
            Self::NotReady => "it is not ready",
            Self::Marked => "it is marked with cluster.k8s.io/delete-machine",
            Self::Newest => "it is the newest",
        }
    }

    /// All that is broken is alike, and the newest of it goes first.
    const fn class(self) -> u8 {
        match self {
            Self::NeverJoined | Self::Gone | Self::NotReady => 0,
            Self::Marked => 1,
            Self::Newest => 2,
        }
    }
}

/// The workers of a pool that go, in that order, and why each: what is broken,
/// then what a user marked, then the newest. The same facts, in whatever order,
/// give the same victims.
pub fn members_to_remove(
    pool: &str,
    how_many: usize,
    members: &[Member],
    seen: &Observed,
) -> Vec<(MachineId, String)> {
    let workers = members
        .iter()
        .filter(|member| member.role == ClusterRole::Worker);
    let mut turn: Vec<_> = workers
        .filter(|member| member.pool == pool)
        .map(|member| (Reason::of(member, seen), member))
        .collect();
    turn.sort_by_key(|(reason, member)| {
        let age = Reverse((member.added_at_ms, member.number));
        (reason.class(), age, member.machine.clone())
    });
    let first = turn.into_iter().take(how_many);
    first
        .map(|(reason, member)| (member.machine.clone(), reason.message().into()))
        .collect()
}
