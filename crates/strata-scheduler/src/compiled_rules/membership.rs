//! Which instances count in which groups. Rules say both what an instance is
//! (labels) and what it counts (selectors), so all instances of one set of
//! rules count in the same groups, and that list is made once.

use std::collections::HashSet;

use super::{CompiledRuleSet, CompiledRules};
use crate::fleet::{Instances, Nodes};

impl CompiledRules {
    /// An instance came to a node.
    pub(crate) fn join(&mut self, id: u32, node: usize, nodes: &Nodes) {
        if let Some(Some(entry)) = self.entries.get_mut(id as usize) {
            self.idle -= usize::from(entry.users == 0);
            entry.users += 1;
        }
        self.each_group(id, nodes, |entry, group, fresh| {
            entry.groups[group].join(node, fresh);
        });
    }

    /// An instance left a node.
    pub(crate) fn leave(&mut self, id: u32, node: usize, nodes: &Nodes) {
        if let Some(Some(entry)) = self.entries.get_mut(id as usize) {
            entry.users -= 1;
            self.idle += usize::from(entry.users == 0);
        }
        self.each_group(id, nodes, |entry, group, fresh| {
            entry.groups[group].leave(node, fresh);
        });
    }

    /// Every group in which instances of these rules count, and whether what
    /// it derives from nodes is up to date.
    fn each_group(
        &mut self,
        id: u32,
        nodes: &Nodes,
        mut each: impl FnMut(&mut CompiledRuleSet, usize, bool),
    ) {
        let groups = |book: &Self, at: usize| book.get(id)?.counted_by.get(at).copied();
        let mut at = 0;
        while let Some((holder, group)) = groups(self, at) {
            if let Some(Some(entry)) = self.entries.get_mut(holder as usize) {
                let fresh = entry.version == Some(nodes.version());
                each(entry, group as usize, fresh);
            }
            at += 1;
        }
    }

    /// Counts the instances that are placed already in the groups of an entry.
    pub(super) fn count_placed(&self, new: &mut CompiledRuleSet, instances: &Instances) {
        for group in &mut new.groups {
            let candidates = self.group_counts.candidates(group).iter().copied();
            let counted: HashSet<u32> = candidates
                .filter(|&id| {
                    let entry = self.get(id).filter(|entry| entry.users > 0);
                    entry.is_some_and(|entry| group.counts(&entry.rules))
                })
                .collect();
            if counted.is_empty() {
                continue;
            }
            for instance in instances.iter() {
                if counted.contains(&instance.rules) {
                    group.join(instance.node as usize, false);
                }
            }
        }
    }

    /// Notes which instances count in the groups of a new entry, and where it
    /// counts.
    pub(super) fn link(&mut self, id: u32) {
        let Some(new) = self.get(id) else { return };
        let mut links: Vec<(u32, (u32, u32))> = Vec::new();
        for (holder, at) in self.group_counts.groups(&new.rules) {
            let entry = self.get(holder);
            let group = entry.and_then(|entry| entry.groups.get(at as usize));
            if group.is_some_and(|group| group.counts(&new.rules)) {
                links.push((id, (holder, at)));
            }
        }
        for (at, group) in new.groups.iter().enumerate() {
            for &member in self.group_counts.candidates(group) {
                let entry = self.get(member).filter(|_| member != id);
                if entry.is_some_and(|entry| group.counts(&entry.rules)) {
                    links.push((member, (id, at as u32)));
                }
            }
        }
        for (member, group) in links {
            if let Some(Some(entry)) = self.entries.get_mut(member as usize) {
                entry.counted_by.push(group);
            }
        }
    }
}
