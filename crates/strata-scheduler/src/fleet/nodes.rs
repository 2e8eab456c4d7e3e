//! The nodes of a fleet by handle, by name and by label, and a journal of
//! those whose nature changed: labels, state, what they can run. What is
//! computed per set of rules catches up from the journal when it is next used.

use std::collections::HashMap;

use super::slot::Slot;
use crate::index::{Bits, LabelIndex};
use crate::{Constraint, FleetError, NodeId, NodeState};

/// The journal is cut when it is longer than the fleet by as much: a reader
/// that is further behind looks at all nodes anyway.
const JOURNAL_SLACK: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    slots: Vec<Option<Slot>>,
    vacant: Vec<u32>,
    names: HashMap<String, u32>,
    pub(crate) labels: LabelIndex,
    ready: Bits,
    journal: Vec<u32>,
    /// How many entries the journal has lost.
    forgotten: u64,
    /// Counts changes of labels alone.
    relabelled: u64,
}

impl Nodes {
    pub(crate) fn end(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get(&self, node: usize) -> Option<&Slot> {
        self.slots.get(node)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, node: usize) -> Option<&mut Slot> {
        self.slots.get_mut(node)?.as_mut()
    }

    pub(crate) fn find(&self, id: NodeId) -> Result<&Slot, FleetError> {
        self.get(id.slot()).ok_or(FleetError::NoSuchNode(id))
    }

    pub(crate) fn find_mut(&mut self, id: NodeId) -> Result<&mut Slot, FleetError> {
        self.get_mut(id.slot()).ok_or(FleetError::NoSuchNode(id))
    }

    pub(crate) fn named(&self, name: &str) -> Option<usize> {
        self.names.get(name).map(|&node| node as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(node, slot)| Some((node, slot.as_ref()?)))
    }

    pub(crate) fn ready(&self) -> &Bits {
        &self.ready
    }

    pub(crate) fn insert(&mut self, slot: Slot) -> usize {
        let node = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        self.names.insert(slot.spec.name.clone(), node);
        let node = node as usize;
        self.labels.add(node, &slot.spec.labels);
        self.ready.put(node, slot.state == NodeState::Ready);
        if node == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[node] = Some(slot);
        self.relabelled += 1;
        self.note(node);
        node
    }

    pub(crate) fn remove(&mut self, node: usize) -> Option<Slot> {
        let slot = self.slots.get_mut(node)?.take()?;
        self.names.remove(&slot.spec.name);
        self.labels.remove(node, &slot.spec.labels);
        self.ready.clear(node);
        self.vacant.push(node as u32);
        self.relabelled += 1;
        self.note(node);
        Some(slot)
    }

    /// Changes a node by `change` and files it again where it differs.
    pub(crate) fn change(&mut self, node: usize, change: impl FnOnce(&mut Slot)) {
        let Some(slot) = self.slots.get_mut(node).and_then(Option::as_mut) else {
            return;
        };
        let (name, labels) = (slot.spec.name.clone(), slot.spec.labels.clone());
        change(slot);
        if slot.spec.name != name {
            self.names.remove(&name);
            self.names.insert(slot.spec.name.clone(), node as u32);
        }
        if slot.spec.labels != labels {
            self.labels.remove(node, &labels);
            self.labels.add(node, &slot.spec.labels);
            self.relabelled += 1;
        }
        self.ready.put(node, slot.state == NodeState::Ready);
        self.note(node);
    }

    fn note(&mut self, node: usize) {
        if self.journal.len() > self.slots.len() + JOURNAL_SLACK {
            self.forgotten += self.journal.len() as u64;
            self.journal.clear();
        }
        self.journal.push(node as u32);
    }

    /// How many changes there were.
    pub(crate) fn version(&self) -> u64 {
        self.forgotten + self.journal.len() as u64
    }

    /// How many changes of labels there were.
    pub(crate) fn relabelled(&self) -> u64 {
        self.relabelled
    }

    /// The nodes that changed after `version`, or `None` if too many did.
    pub(crate) fn changed_since(&self, version: u64) -> Option<&[u32]> {
        let from = version.checked_sub(self.forgotten)?;
        self.journal.get(usize::try_from(from).ok()?..)
    }

    /// The nodes among `set` that meet a constraint.
    pub(crate) fn filter(&self, constraint: &Constraint, set: &mut Bits) {
        self.labels.filter(constraint, set, |name| self.named(name));
    }
}
