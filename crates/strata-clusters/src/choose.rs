//! What a cluster is made of: whether it can be made at all, which machines
//! it gets, which numbers they have, and which of them go first.
//!
//! All of it is decided from facts and touches nothing. One comparison of the
//! desired with the observed members ([`changes`]) serves to build, to add, to
//! scale, to delete a pool and to remediate; after a stop in the middle it
//! finds what is still to be done.

mod check;
mod labels;
mod machines;
mod removal;

use std::collections::{BTreeMap, BTreeSet};

use strata_types::cluster::{ClusterRole, ClusterSpec, InstanceType, Member};
use strata_types::{Error, Result};

pub use check::{MAX_POOLS, MAX_WORKERS, check, check_added, check_scaled};
pub use labels::{MAX_LABELS, check_labels};
pub use machines::{Candidate, Choice, choose, choose_most};
pub use removal::members_to_remove;

/// The highest number of a member: those above are not addresses of a subnet
/// that one would expect.
pub const MAX_MEMBERS: u8 = 250;

/// Machines that are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleDemand {
    /// What they are to be.
    pub role: ClusterRole,
    /// The pool of workers; empty for the control plane.
    pub pool: String,
    pub instance_type: InstanceType,
    /// Labels of their Kubernetes nodes.
    pub labels: BTreeMap<String, String>,
    /// The number of them.
    pub count: u32,
}

/// Workers that are too many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surplus {
    pub pool: String,
    /// The number of them.
    pub count: u32,
}

/// The difference between the specification and the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What is missing, the control plane first.
    pub add: Vec<RoleDemand>,
    /// What is too much; [`members_to_remove`] says which.
    pub remove: Vec<Surplus>,
}

impl Changes {
    /// Whether the members are as specified.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// Compares the specification with the members that there are. The control
/// plane is filled up and never made smaller; pools that are not specified any
/// more go whole.
pub fn changes(spec: &ClusterSpec, members: &[Member]) -> Changes {
    let mut changes = Changes::default();
    let controls = members
        .iter()
        .filter(|m| m.role == ClusterRole::ControlPlane);
    let missing = spec.control_plane.count.saturating_sub(count(controls));
    if missing > 0 {
        changes.add.push(RoleDemand {
            role: ClusterRole::ControlPlane,
            pool: String::new(),
            instance_type: spec.control_plane.instance_type,
            labels: spec.control_plane.labels.clone(),
            count: missing,
        });
    }
    let mut there: BTreeMap<&str, u32> = BTreeMap::new();
    for member in members.iter().filter(|m| m.role == ClusterRole::Worker) {
        *there.entry(&member.pool).or_default() += 1;
    }
    for pool in &spec.pools {
        let have = there.remove(pool.name.as_str()).unwrap_or(0);
        if have < pool.count {
            changes.add.push(RoleDemand {
                role: ClusterRole::Worker,
                pool: pool.name.clone(),
                instance_type: pool.instance_type,
                labels: pool.labels.clone(),
                count: pool.count - have,
            });
        } else if have > pool.count {
            changes.remove.push(Surplus {
                pool: pool.name.clone(),
                count: have - pool.count,
            });
        }
    }
    let orphans = there.into_iter().map(|(pool, count)| Surplus {
        pool: pool.into(),
        count,
    });
    changes.remove.extend(orphans);
    changes
}

fn count<'a>(members: impl Iterator<Item = &'a Member>) -> u32 {
    u32::try_from(members.count()).unwrap_or(u32::MAX)
}

/// The lowest numbers that no member has, from 1.
pub fn free_numbers(members: &[Member], how_many: usize) -> Result<Vec<u8>> {
    let taken: BTreeSet<u8> = members.iter().map(|member| member.number).collect();
    let free = (1..=MAX_MEMBERS).filter(|number| !taken.contains(number));
    let numbers: Vec<u8> = free.take(how_many).collect();
    match numbers.len() == how_many {
        true => Ok(numbers),
        false => Err(Error::exhausted(format!(
            "a cluster has at most {MAX_MEMBERS} machines; it has {}, and {how_many} more are requested",
            members.len()
        ))),
    }
}

/// The addresses of the pods on the member with this number.
pub fn pod_subnet(number: u8) -> String {
    format!("10.244.{number}.0/24")
}
