//! What a prune would take away. Pure: facts go in, a plan comes out.

use std::collections::{BTreeMap, HashSet};

use crate::{Digest, Reference};

/// How far a prune goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneGoal {
    /// Only what no image needs.
    Garbage,
    /// Also packed layers that are unpacked: they would be downloaded again
    /// if the unpacked ones were lost.
    Packed,
    /// Also unused images, the least recently used first, until at least this
    /// many bytes are freed or nothing is left to take.
    Free(u64),
}

/// What is here. Sizes by digest; what is leased is in no list.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) images: Vec<Known>,
    pub(super) blobs: BTreeMap<Digest, u64>,
    pub(super) layers: BTreeMap<Digest, u64>,
    /// Needed by what runs or is being pulled.
    pub(super) held: Needs,
}

/// An image and what it needs.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) reference: Reference,
    pub(super) used: jiff::Timestamp,
    pub(super) in_use: bool,
    pub(super) needs: Needs,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Manifest and config.
    pub(super) documents: HashSet<Digest>,
    /// Packed layers with what they unpack to.
    pub(super) packed: BTreeMap<Digest, Digest>,
    /// Unpacked layers, and whatever else must stay under that digest.
    pub(super) layers: HashSet<Digest>,
}

impl Needs {
    fn add(&mut self, other: &Self) {
        self.documents.extend(&other.documents);
        self.packed.extend(&other.packed);
        self.layers.extend(&other.layers);
    }
}

/// What goes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) images: Vec<Reference>,
    pub(super) blobs: Vec<Digest>,
    pub(super) layers: Vec<Digest>,
    pub(super) bytes: u64,
}

pub(super) fn plan(facts: &Facts, goal: PruneGoal) -> Plan {
    let mut by_use: Vec<&Known> = facts.images.iter().filter(|image| !image.in_use).collect();
    by_use.sort_by_key(|image| (image.used, &image.reference));
    let mut gone = 0;
    loop {
        let plan = without(facts, &by_use[..gone], goal);
        let enough = match goal {
            PruneGoal::Free(wanted) => plan.bytes >= wanted,
            _ => true,
        };
        if enough || gone == by_use.len() {
            return plan;
        }
        gone += 1;
    }
}

/// What goes when these images do.
fn without(facts: &Facts, gone: &[&Known], goal: PruneGoal) -> Plan {
    let mut needed = facts.held.clone();
    for image in &facts.images {
        if !gone.iter().any(|g| g.reference == image.reference) {
            needed.add(&image.needs);
        }
    }
    let keep_packed = |digest: &Digest| {
        // A blob that a pull holds is among the held layers.
        needed.layers.contains(digest)
            || needed.packed.get(digest).is_some_and(|diff_id| {
                goal == PruneGoal::Garbage || !facts.layers.contains_key(diff_id)
            })
    };
    let mut plan = Plan {
        images: gone.iter().map(|image| image.reference.clone()).collect(),
        ..Plan::default()
    };
    for (digest, size) in &facts.blobs {
        if !needed.documents.contains(digest) && !keep_packed(digest) {
            plan.blobs.push(*digest);
            plan.bytes += size;
        }
    }
    for (diff_id, size) in &facts.layers {
        if !needed.layers.contains(diff_id) {
            plan.layers.push(*diff_id);
            plan.bytes += size;
        }
    }
    plan
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
