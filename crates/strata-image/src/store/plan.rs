//! What a prune would take away. Pure: facts go in, a plan comes out.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::share::{Amount, ProjectShare};
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
    /// many bytes are freed or nothing is left to take; those of projects that
    /// are over their share before all others.
    Free(u64),
}

/// What is here. Sizes by digest; what is leased is in no list.
#[derive(Debug, Default)]
pub(super) struct StoreContents {
    pub(super) images: Vec<StoredImage>,
    pub(super) blobs: BTreeMap<Digest, u64>,
    pub(super) layers: BTreeMap<Digest, u64>,
    /// Of how many entries the unpacked layers are.
    pub(super) entries: BTreeMap<Digest, u64>,
    /// Needed by what runs or is being pulled.
    pub(super) held: RequiredContent,
    /// What a project may hold, beside what is free.
    pub(super) share: Option<ProjectShare>,
    pub(super) free: Amount,
}

/// An image and what it needs.
#[derive(Clone, Debug)]
pub(super) struct StoredImage {
    pub(super) reference: Reference,
    /// Those that it was pulled or used for.
    pub(super) projects: BTreeSet<String>,
    pub(super) used: jiff::Timestamp,
    pub(super) in_use: bool,
    pub(super) needs: RequiredContent,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequiredContent {
    pub(super) documents: HashSet<Digest>,
    /// Packed layers with what they unpack to.
    pub(super) packed: BTreeMap<Digest, Digest>,
    /// Unpacked layers, and whatever else must stay under that digest.
    pub(super) layers: HashSet<Digest>,
}

impl RequiredContent {
    fn add(&mut self, other: &Self) {
        self.documents.extend(&other.documents);
        self.packed.extend(&other.packed);
        self.layers.extend(&other.layers);
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) images: Vec<Reference>,
    pub(super) blobs: Vec<Digest>,
    pub(super) layers: Vec<Digest>,
    pub(super) bytes: u64,
    /// Images that stay for others, and the project that lets go of them.
    pub(super) released: Vec<(Reference, String)>,
}

pub(super) fn plan(facts: &StoreContents, goal: PruneGoal) -> Plan {
    let over = facts.over_share();
    let mut by_use: Vec<&StoredImage> = facts.images.iter().filter(|image| !image.in_use).collect();
    by_use.sort_by_key(|image| (!image.is_only_of(&over), image.used, &image.reference));
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

/// Takes unused images from a project, the least recently used first, until it
/// holds this many percent of its share; and those of other projects that are
/// over theirs.
pub(super) fn plan_share(facts: &StoreContents, project: &str, percent: u8) -> Plan {
    let mut over = facts.over_share();
    over.insert(project);
    let unused = facts.images.iter().filter(|image| !image.in_use);
    let (own, others): (Vec<_>, Vec<_>) =
        unused.partition(|image| image.projects.contains(project));
    let mut own = own;
    own.sort_by_key(|image| (image.used, &image.reference));
    let held = facts.held_by(project, &[]);
    let most = |held: u64, free: u64| {
        let limit = facts
            .share
            .map_or(u64::MAX, |share| share.limit(held, free));
        u64::try_from(u128::from(limit) * u128::from(percent) / 100).unwrap_or(u64::MAX)
    };
    let most = Amount {
        bytes: most(held.bytes, facts.free.bytes),
        inodes: most(held.inodes, facts.free.inodes),
    };
    let enough = |gone: &usize| {
        let left = facts.held_by(project, &own[..*gone]);
        left.bytes <= most.bytes && left.inodes <= most.inodes
    };
    let gone = (0..own.len()).find(enough).unwrap_or(own.len());
    let (gone, shared): (Vec<_>, Vec<_>) = own[..gone]
        .iter()
        .copied()
        .partition(|image| image.is_only_of(&over));
    let others = others.into_iter().filter(|image| image.is_only_of(&over));
    let gone: Vec<_> = gone.into_iter().chain(others).collect();
    let mut plan = without(facts, &gone, PruneGoal::Garbage);
    let released = shared.iter().map(|image| image.reference.clone());
    plan.released = released.map(|name| (name, project.to_owned())).collect();
    plan
}

impl StoredImage {
    /// Whether only these projects may use it.
    fn is_only_of(&self, projects: &HashSet<&str>) -> bool {
        let all = |project: &String| projects.contains(project.as_str());
        !self.projects.is_empty() && self.projects.iter().all(all)
    }
}

impl StoreContents {
    /// Projects whose images take more than they may.
    fn over_share(&self) -> HashSet<&str> {
        let projects: BTreeSet<&str> = self
            .images
            .iter()
            .flat_map(|image| image.projects.iter().map(String::as_str))
            .collect();
        let is_over = |project: &&str| {
            let held = self.held_by(project, &[]);
            self.share
                .is_some_and(|share| share.is_over(held, self.free))
        };
        projects.into_iter().filter(is_over).collect()
    }

    /// What the images of a project need, but for these.
    fn held_by(&self, project: &str, but: &[&StoredImage]) -> Amount {
        let mut needed = RequiredContent::default();
        for image in &self.images {
            let goes = but.iter().any(|one| one.reference == image.reference);
            if image.projects.contains(project) && !goes {
                needed.add(&image.needs);
            }
        }
        let mut held = Amount::default();
        let blobs: HashSet<&Digest> = needed
            .documents
            .iter()
            .chain(needed.packed.keys())
            .collect();
        for size in blobs.into_iter().filter_map(|blob| self.blobs.get(blob)) {
            held.add(Amount::of_blob(*size));
        }
        for layer in &needed.layers {
            let entries = self.entries.get(layer).copied().unwrap_or(0);
            if let Some(size) = self.layers.get(layer) {
                held.add(Amount::of_layer(*size, entries));
            }
        }
        held
    }
}

/// What goes when these images do.
fn without(facts: &StoreContents, gone: &[&StoredImage], goal: PruneGoal) -> Plan {
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
