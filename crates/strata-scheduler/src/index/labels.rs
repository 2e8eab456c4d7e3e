//! Label and value to nodes. Lists, not sets of bits: a label that is unique
//! to each node, such as its host name, would cost the square of the nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::Bits;
use crate::{Constraint, Labels};

type Values = BTreeMap<String, BTreeSet<u32>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct LabelIndex(BTreeMap<String, Values>);

impl LabelIndex {
    pub(crate) fn add(&mut self, node: usize, labels: &Labels) {
        for (key, value) in labels {
            let values = self.0.entry(key.clone()).or_default();
            values.entry(value.clone()).or_default().insert(node as u32);
        }
    }

    pub(crate) fn remove(&mut self, node: usize, labels: &Labels) {
        for (key, value) in labels {
            let Some(values) = self.0.get_mut(key) else {
                continue;
            };
            if let Some(nodes) = values.get_mut(value) {
                nodes.remove(&(node as u32));
                if nodes.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// The values of a label and the nodes that have each.
    pub(crate) fn values(&self, key: &str) -> impl Iterator<Item = &BTreeSet<u32>> {
        self.0.get(key).into_iter().flat_map(BTreeMap::values)
    }

    /// Takes out of `set` the nodes that do not meet the constraint. `named`
    /// returns the node of a name.
    pub(crate) fn filter(
        &self,
        constraint: &Constraint,
        set: &mut Bits,
        named: impl Fn(&str) -> Option<usize>,
    ) {
        let one = std::slice::from_ref;
        match constraint {
            Constraint::Is(key, value) => set.keep(&self.with(key, one(value))),
            Constraint::IsNot(key, value) => set.remove(&self.with(key, one(value))),
            Constraint::In(key, values) => set.keep(&self.with(key, values)),
            Constraint::NotIn(key, values) => set.remove(&self.with(key, values)),
            Constraint::Exists(key) => set.keep(&gather(self.values(key))),
            Constraint::Absent(key) => set.remove(&gather(self.values(key))),
            Constraint::Named(names) => set.keep(&nodes_named(names, named)),
            Constraint::NotNamed(names) => set.remove(&nodes_named(names, named)),
        }
    }

    fn with(&self, key: &str, values: &[String]) -> Bits {
        let nodes = self.0.get(key);
        gather(values.iter().filter_map(|value| nodes?.get(value)))
    }
}

fn gather<'a>(lists: impl Iterator<Item = &'a BTreeSet<u32>>) -> Bits {
    let mut set = Bits::default();
    for &node in lists.flatten() {
        set.set(node as usize);
    }
    set
}

fn nodes_named(names: &[String], named: impl Fn(&str) -> Option<usize>) -> Bits {
    let mut set = Bits::default();
    for node in names.iter().filter_map(|name| named(name)) {
        set.set(node);
    }
    set
}
