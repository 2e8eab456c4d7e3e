//! One set of rules, and what follows from it for the nodes as they are.

use std::sync::Arc;

use super::group::Group;
use super::topology::Topologies;
use crate::fleet::{Nodes, Slot};
use crate::index::Bits;
use crate::{AffinityMode, Rules};

#[derive(Clone, Debug)]
pub(crate) struct CompiledRuleSet {
    pub(crate) rules: Arc<Rules>,
    /// Nodes that can run the kind, own such GPUs and meet all constraints,
    /// ready or not.
    pub(crate) eligible: Bits,
    /// How many of them are ready.
    pub(crate) usable: usize,
    /// For each preference, the nodes that meet it.
    pub(crate) preferred: Vec<Bits>,
    /// One per affinity, then one per spread.
    pub(crate) groups: Vec<Group>,
    /// Groups, by entry and place, in which instances of these rules count.
    pub(super) counted_by: Vec<(u32, u32)>,
    /// How many instances have these rules.
    pub(super) users: usize,
    /// As of which version of the nodes; `None` before the first.
    pub(super) version: Option<u64>,
}

impl CompiledRuleSet {
    pub(super) fn new(rules: &Arc<Rules>) -> Self {
        let affinities = rules.affinities.iter().map(|one| (&one.to, &one.within));
        let spreads = rules.spreads.iter().map(|one| (&one.of, &one.over));
        let groups = affinities
            .chain(spreads)
            .map(|(what, over)| Group::new(&rules.project, what, over))
            .collect();
        Self {
            rules: Arc::clone(rules),
            eligible: Bits::default(),
            usable: 0,
            preferred: vec![Bits::default(); rules.preferences.len()],
            groups,
            counted_by: Vec::new(),
            users: 0,
            version: None,
        }
    }

    /// Whether nothing but size decides between nodes that are eligible.
    pub(crate) fn is_plain(&self) -> bool {
        self.groups.is_empty() && self.preferred.is_empty()
    }

    /// Whether a placement of others can make room for these.
    pub(crate) fn may_gain(&self) -> bool {
        let affinities = self.rules.affinities.iter();
        let mut required = affinities.filter(|one| one.mode == AffinityMode::Require);
        required.next().is_some() || self.rules.spreads.iter().any(|one| one.max_skew.is_some())
    }

    /// Catches up with the nodes.
    pub(super) fn refresh(&mut self, nodes: &Nodes, topologies: &mut Topologies) {
        if self.version == Some(nodes.version()) {
            return;
        }
        match self
            .version
            .and_then(|version| nodes.changed_since(version))
        {
            Some(changed) => {
                for &node in changed {
                    self.refresh_node(node as usize, nodes.get(node as usize));
                }
            }
            None => self.refresh_all(nodes),
        }
        self.version = Some(nodes.version());
        let mut usable = self.eligible.clone();
        usable.keep(nodes.ready());
        self.usable = usable.count();
        for group in &mut self.groups {
            group.rebuild(&usable, nodes, topologies);
        }
    }

    fn refresh_node(&mut self, node: usize, slot: Option<&Slot>) {
        let meets = |slot: &Slot| self.admits(slot);
        let eligible = slot.is_some_and(meets);
        self.eligible.put(node, eligible);
        for (set, preference) in self.preferred.iter_mut().zip(&self.rules.preferences) {
            let meets = |slot: &Slot| preference.test.met_by(&slot.spec.name, &slot.spec.labels);
            set.put(node, slot.is_some_and(meets));
        }
    }

    fn refresh_all(&mut self, nodes: &Nodes) {
        let mut all = Bits::with_room(nodes.end());
        for (node, slot) in nodes.iter() {
            if self.can_run(slot) {
                all.set(node);
            }
        }
        self.eligible.copy_from(&all);
        for constraint in &self.rules.constraints {
            nodes.filter(constraint, &mut self.eligible);
        }
        for (set, preference) in self.preferred.iter_mut().zip(&self.rules.preferences) {
            set.copy_from(&all);
            nodes.filter(&preference.test, set);
        }
    }

    fn can_run(&self, slot: &Slot) -> bool {
        let gpus = self.rules.gpus.as_ref();
        slot.spec.runs.contains(&self.rules.kind)
            && gpus.is_none_or(|demand| slot.gpus_owned(demand) >= demand.count)
    }

    fn admits(&self, slot: &Slot) -> bool {
        let mut constraints = self.rules.constraints.iter();
        self.can_run(slot)
            && constraints.all(|test| test.met_by(&slot.spec.name, &slot.spec.labels))
    }
}
