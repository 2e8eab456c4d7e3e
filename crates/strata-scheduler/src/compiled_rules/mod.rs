//! The compiled rules: every set of rules that is in use, once, with all that
//! can be computed from it ahead of a request.
//!
//! Rules are found by the address of their `Arc` first, which the book keeps
//! alive, then by content. Rules that no instance has are kept for the next
//! request, until there are too many of them.

mod compiled;
mod group;
mod group_counts;
mod membership;
mod topology;

use std::collections::HashMap;
use std::sync::Arc;

use crate::Rules;
use crate::fleet::{Instances, Nodes};
use crate::hash::FastMap;
pub(crate) use compiled::CompiledRuleSet;
pub(crate) use group::Group;
use group_counts::GroupCounts;
use topology::Topologies;

/// How many sets of rules without instances are kept.
const IDLE: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct CompiledRules {
    entries: Vec<Option<CompiledRuleSet>>,
    vacant: Vec<u32>,
    by_address: FastMap<usize, u32>,
    by_content: HashMap<Arc<Rules>, u32>,
    /// How many entries no instance has.
    idle: usize,
    topologies: Topologies,
    group_counts: GroupCounts,
    /// Stands in for an entry that is not there.
    nothing: Arc<Rules>,
}

impl CompiledRules {
    pub(crate) fn get(&self, id: u32) -> Option<&CompiledRuleSet> {
        self.entries.get(id as usize)?.as_ref()
    }

    pub(crate) fn rules(&self, id: u32) -> &Arc<Rules> {
        self.get(id).map_or(&self.nothing, |entry| &entry.rules)
    }

    pub(crate) fn find(&self, rules: &Arc<Rules>) -> Option<u32> {
        let by_address = self.by_address.get(&(Arc::as_ptr(rules) as usize));
        by_address.or_else(|| self.by_content.get(rules)).copied()
    }

    /// Adds rules that are not in the book.
    pub(crate) fn add(&mut self, rules: &Arc<Rules>, instances: &Instances) -> u32 {
        if self.idle > IDLE {
            self.drop_idle();
        }
        let mut new = CompiledRuleSet::new(rules);
        self.count_placed(&mut new, instances);
        let id = self.vacant.pop().unwrap_or(self.entries.len() as u32);
        if id as usize == self.entries.len() {
            self.entries.push(None);
        }
        self.group_counts.add(id, &new.rules, &new.groups);
        self.entries[id as usize] = Some(new);
        self.link(id);
        self.by_address.insert(Arc::as_ptr(rules) as usize, id);
        self.by_content.insert(Arc::clone(rules), id);
        self.idle += 1;
        id
    }

    /// Brings an entry up to date with the nodes.
    pub(crate) fn refresh(&mut self, id: u32, nodes: &Nodes) {
        if let Some(Some(entry)) = self.entries.get_mut(id as usize) {
            entry.refresh(nodes, &mut self.topologies);
        }
    }

    /// Rules as they would be in the book, without adding them.
    pub(crate) fn register(
        &self,
        rules: &Arc<Rules>,
        nodes: &Nodes,
        all: &Instances,
    ) -> CompiledRuleSet {
        let mut sketch = CompiledRuleSet::new(rules);
        self.count_placed(&mut sketch, all);
        sketch.refresh(nodes, &mut Topologies::default());
        sketch
    }

    fn drop_idle(&mut self) {
        for id in 0..self.entries.len() {
            if self.entries[id]
                .as_ref()
                .is_some_and(|entry| entry.users == 0)
                && let Some(entry) = self.entries[id].take()
            {
                self.by_address
                    .remove(&(Arc::as_ptr(&entry.rules) as usize));
                self.by_content.remove(&entry.rules);
                self.group_counts
                    .remove(id as u32, &entry.rules, &entry.groups);
                self.vacant.push(id as u32);
            }
        }
        self.idle = 0;
        let gone: Vec<bool> = self.entries.iter().map(Option::is_none).collect();
        for entry in self.entries.iter_mut().flatten() {
            entry.counted_by.retain(|(id, _)| !gone[*id as usize]);
        }
    }
}
