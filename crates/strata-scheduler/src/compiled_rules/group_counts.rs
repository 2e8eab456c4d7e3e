//! Which groups may count which instances, found without comparing every set of
//! rules with every other: both sides are filed under one label of a project.

use std::collections::HashMap;

use super::group::Group;
use crate::Rules;

/// A project and one label; no label for selectors that match all instances.
type Key = (String, Option<(String, String)>);

#[derive(Clone, Debug, Default)]
struct GroupPage {
    /// Entries whose instances have the label.
    members: Vec<u32>,
    /// Groups, by entry and place, whose selector begins with the label.
    groups: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct GroupCounts(HashMap<Key, GroupPage>);

fn keys(rules: &Rules) -> impl Iterator<Item = Key> {
    let labels = rules.labels.iter();
    let labels = labels.map(|(key, value)| Some((key.clone(), value.clone())));
    let project = &rules.project;
    std::iter::once(None)
        .chain(labels)
        .map(|label| (project.clone(), label))
}

impl GroupCounts {
    /// Files an entry and its groups.
    pub(super) fn add(&mut self, id: u32, rules: &Rules, groups: &[Group]) {
        for key in keys(rules) {
            self.0.entry(key).or_default().members.push(id);
        }
        for (at, group) in groups.iter().enumerate() {
            let page = self.0.entry(group.first_label()).or_default();
            page.groups.push((id, at as u32));
        }
    }

    pub(super) fn remove(&mut self, id: u32, rules: &Rules, groups: &[Group]) {
        for key in keys(rules).chain(groups.iter().map(Group::first_label)) {
            if let Some(page) = self.0.get_mut(&key) {
                page.members.retain(|member| *member != id);
                page.groups.retain(|(holder, _)| *holder != id);
                if page.members.is_empty() && page.groups.is_empty() {
                    self.0.remove(&key);
                }
            }
        }
    }

    /// Entries among which are all that a group counts.
    pub(super) fn candidates(&self, group: &Group) -> &[u32] {
        self.0
            .get(&group.first_label())
            .map_or(&[], |page| &page.members)
    }

    /// Groups among which are all that count instances of these rules.
    pub(super) fn groups(&self, rules: &Rules) -> Vec<(u32, u32)> {
        keys(rules)
            .filter_map(|key| self.0.get(&key))
            .flat_map(|page| page.groups.iter().copied())
            .collect()
    }
}
