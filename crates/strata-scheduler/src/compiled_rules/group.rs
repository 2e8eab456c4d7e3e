//! The instances that one selector of one set of rules counts, per domain.
//!
//! Domains with the same count form a tier, and the nodes of a tier are one
//! set. So "the nodes in the emptiest zones", "nodes that have no sibling" are
//! sets at hand when a request comes, and one instance that comes or goes
//! moves one domain from one tier to the next.

use std::sync::Arc;

use super::topology::{Topologies, Topology};
use crate::fleet::Nodes;
use crate::hash::FastMap;
use crate::index::Bits;
use crate::{Domain, Rules, Selector};

/// Domains that have the same number of instances.
#[derive(Clone, Debug)]
pub(crate) struct Tier {
    pub(crate) count: u32,
    domains: usize,
    pub(crate) nodes: Bits,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    project: String,
    what: Selector,
    over: Domain,
    /// Instances per node that has any: a fact, whatever becomes of nodes.
    on_node: FastMap<usize, u32>,
    /// Instances on all nodes.
    pub(crate) total: u64,
    /// Which node is in which domain, when domains are values of a label.
    topology: Option<Arc<Topology>>,
    /// Instances per domain of the topology.
    in_domain: Vec<u32>,
    /// Which domains of the topology have usable nodes.
    open: Vec<bool>,
    /// Nodes that are ready and that the rules admit.
    usable: Bits,
    /// The usable nodes that are in a domain.
    pub(crate) somewhere: Bits,
    /// Whether some usable node is in no domain.
    pub(crate) homeless: bool,
    /// The usable nodes in domains with an instance.
    pub(crate) occupied: Bits,
    /// From the lowest count.
    pub(crate) tiers: Vec<Tier>,
    /// Empty sets for new tiers.
    spare: Vec<Bits>,
}

impl Group {
    pub(super) fn new(project: &str, what: &Selector, over: &Domain) -> Self {
        Self {
            project: project.to_owned(),
            what: what.clone(),
            over: over.clone(),
            on_node: FastMap::default(),
            total: 0,
            topology: None,
            in_domain: Vec::new(),
            open: Vec::new(),
            usable: Bits::default(),
            somewhere: Bits::default(),
            homeless: false,
            occupied: Bits::default(),
            tiers: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Whether instances of these rules are counted.
    pub(crate) fn counts(&self, rules: &Rules) -> bool {
        rules.project == self.project && self.what.matches(&rules.labels)
    }

    /// The project and a label that all instances of the group have.
    pub(super) fn first_label(&self) -> (String, Option<(String, String)>) {
        let first = self.what.0.first_key_value();
        let first = first.map(|(key, value)| (key.clone(), value.clone()));
        (self.project.clone(), first)
    }

    /// How many instances the domain of a node has, if it is in one.
    pub(crate) fn domain_count(&self, node: usize) -> Option<u32> {
        match &self.topology {
            None => Some(self.on_node.get(&node).copied().unwrap_or(0)),
            Some(topology) => Some(self.in_domain[topology.domain(node)?]),
        }
    }

    /// The count of the emptiest domain.
    pub(crate) fn least(&self) -> u32 {
        self.tiers.first().map_or(0, |tier| tier.count)
    }

    /// Whether one more instance fits where `count` are.
    pub(crate) fn allows(&self, max_skew: u32, count: u32) -> bool {
        count < self.least().saturating_add(max_skew.max(1))
    }

    /// Whether an instance of these rules would be the first of the group.
    pub(crate) fn starts_with(&self, rules: &Rules) -> bool {
        self.total == 0 && self.counts(rules)
    }

    /// What it is worth to be in a domain with `count` instances, or in none.
    pub(crate) fn evenness(&self, weight: u32, count: Option<u32>) -> i64 {
        let most = self.tiers.last().map_or(0, |tier| tier.count);
        let above = match count {
            Some(count) => i64::from(count.saturating_sub(self.least())),
            None => i64::from(most - self.least()) + 1,
        };
        above.saturating_mul(-i64::from(weight))
    }

    pub(super) fn join(&mut self, node: usize, fresh: bool) {
        let before = self.domain_count(node).filter(|_| fresh);
        *self.on_node.entry(node).or_insert(0) += 1;
        self.total += 1;
        if let Some(before) = before {
            self.shift(node, before, before + 1);
        }
    }

    pub(super) fn leave(&mut self, node: usize, fresh: bool) {
        let before = self.domain_count(node).filter(|_| fresh);
        if let Some(count) = self.on_node.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.on_node.remove(&node);
            }
            self.total -= 1;
        }
        if let Some(before) = before {
            self.shift(node, before, before - 1);
        }
    }

    /// Moves the domain of a node from one tier to another.
    fn shift(&mut self, node: usize, before: u32, after: u32) {
        let topology = self.topology.clone();
        let usable = std::mem::take(&mut self.usable);
        let members = match &topology {
            None => usable.has(node).then_some(Members::One(node)),
            Some(topology) => topology.domain(node).and_then(|domain| {
                self.in_domain[domain] = after;
                let members = Members::Both(&topology.members()[domain], &usable);
                self.open[domain].then_some(members)
            }),
        };
        if let Some(members) = members {
            if after == 0 {
                members.take_from(&mut self.occupied);
            } else if before == 0 {
                members.add_to(&mut self.occupied);
            }
            self.withdraw(before, &members);
            self.enter(after, &members);
        }
        self.usable = usable;
    }

    fn withdraw(&mut self, count: u32, members: &Members<'_>) {
        let Ok(at) = self.tiers.binary_search_by_key(&count, |tier| tier.count) else {
            return;
        };
        let tier = &mut self.tiers[at];
        members.take_from(&mut tier.nodes);
        tier.domains -= 1;
        if tier.domains == 0 {
            self.spare.push(self.tiers.remove(at).nodes);
        }
    }

    fn enter(&mut self, count: u32, members: &Members<'_>) {
        let at = match self.tiers.binary_search_by_key(&count, |tier| tier.count) {
            Ok(at) => at,
            Err(at) => {
                let nodes = self.spare.pop().unwrap_or_default();
                let tier = Tier {
                    count,
                    domains: 0,
                    nodes,
                };
                self.tiers.insert(at, tier);
                at
            }
        };
        members.add_to(&mut self.tiers[at].nodes);
        self.tiers[at].domains += 1;
    }

    /// Makes everything but the counts again.
    pub(super) fn rebuild(&mut self, usable: &Bits, nodes: &Nodes, all: &mut Topologies) {
        self.usable.copy_from(usable);
        self.somewhere = Bits::with_room(nodes.end());
        self.occupied = Bits::with_room(nodes.end());
        self.tiers.clear();
        self.spare.clear();
        let Domain::Label(key) = &self.over else {
            for node in usable.ones() {
                let count = self.on_node.get(&node).copied().unwrap_or(0);
                self.take_part(count, &Members::One(node));
            }
            self.homeless = false;
            return;
        };
        let topology = all.get(key, nodes);
        self.in_domain = vec![0; topology.members().len()];
        for (&node, &count) in &self.on_node {
            if let Some(domain) = topology.domain(node) {
                self.in_domain[domain] += count;
            }
        }
        self.open.clear();
        for (domain, members) in topology.members().iter().enumerate() {
            let open = members.meets(usable);
            self.open.push(open);
            if open {
                self.take_part(self.in_domain[domain], &Members::Both(members, usable));
            }
        }
        self.topology = Some(topology);
        self.homeless = self.somewhere.count() < usable.count();
    }

    /// Adds a domain that takes part.
    fn take_part(&mut self, count: u32, members: &Members<'_>) {
        members.add_to(&mut self.somewhere);
        if count > 0 {
            members.add_to(&mut self.occupied);
        }
        self.enter(count, members);
    }
}

/// The usable nodes of a domain.
enum Members<'a> {
    One(usize),
    Both(&'a Bits, &'a Bits),
}

impl Members<'_> {
    fn add_to(&self, set: &mut Bits) {
        match self {
            Self::One(node) => set.set(*node),
            Self::Both(one, other) => set.add_both(one, other),
        }
    }

    fn take_from(&self, set: &mut Bits) {
        match self {
            Self::One(node) => set.clear(*node),
            Self::Both(one, other) => set.remove_both(one, other),
        }
    }
}
