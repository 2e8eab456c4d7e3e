//! Every record in memory, with the indexes that questions need. Filled from
//! the store and kept true by its watch; nobody else writes here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use strata_store::{Change, Entry, Revision};
use strata_types::instance::{InstanceId, WorkloadId};
use strata_types::{Error, Label};

use super::clusters::Cluster;
use super::keys;
use super::machines::Machine;
use super::record::{Instance, Node, Project, ProjectUse, Workload, decode};

/// A record and when it was last written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<T> {
    /// The record.
    pub record: T,
    /// When it was last written.
    pub revision: Revision,
}

impl<T> std::ops::Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.record
    }
}

/// What became of a record: how it was, how it is.
#[derive(Clone, Debug)]
pub struct Turn<T> {
    /// Before; none when it is new.
    pub before: Option<Arc<Kept<T>>>,
    /// Now; none when it is gone.
    pub after: Option<Arc<Kept<T>>>,
}

/// A change to one record.
#[derive(Clone, Debug)]
pub enum Changed {
    /// An instance.
    Instance(Turn<Instance>),
    /// A workload.
    Workload(Turn<Workload>),
    /// A node.
    Node(Turn<Node>),
    /// A project.
    Project(Turn<Project>),
    /// A machine.
    Machine(Turn<Machine>),
    /// A cluster.
    Cluster(Turn<Cluster>),
}

/// All records.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) instances: BTreeMap<InstanceId, Arc<Kept<Instance>>>,
    pub(crate) workloads: BTreeMap<WorkloadId, Arc<Kept<Workload>>>,
    pub(crate) nodes: BTreeMap<String, Arc<Kept<Node>>>,
    pub(crate) projects: BTreeMap<Label, Arc<Kept<Project>>>,
    pub(crate) machines: BTreeMap<Label, Arc<Kept<Machine>>>,
    pub(crate) clusters: BTreeMap<Label, Arc<Kept<Cluster>>>,
    pub(crate) instance_names: HashMap<(Label, Label), InstanceId>,
    pub(crate) workload_names: HashMap<(Label, Label), WorkloadId>,
    pub(crate) on_node: HashMap<String, BTreeSet<InstanceId>>,
    pub(crate) of_workload: HashMap<WorkloadId, BTreeSet<InstanceId>>,
    pub(crate) uses: HashMap<Label, ProjectUse>,
}

impl Tables {
    /// Takes in one change. Keys that are none of these are others' business.
    pub(crate) fn apply(&mut self, change: Change) -> Result<Option<Changed>, Error> {
        let key = match &change {
            Change::Put(entry) => entry.key.as_str(),
            Change::Deleted { key } => key.as_str(),
        };
        let changed = if let Some(id) = key.strip_prefix(keys::INSTANCES) {
            let id: InstanceId = id.parse()?;
            Changed::Instance(self.turn_instance(id, read(change)?))
        } else if let Some(id) = key.strip_prefix(keys::WORKLOADS) {
            let id: WorkloadId = id.parse()?;
            Changed::Workload(self.turn_workload(id, read(change)?))
        } else if let Some(name) = key.strip_prefix(keys::NODES) {
            let name = name.to_owned();
            Changed::Node(turn(&mut self.nodes, name, read(change)?))
        } else if let Some(name) = key.strip_prefix(keys::PROJECTS) {
            let name = Label::from_field("project", name)?;
            Changed::Project(turn(&mut self.projects, name, read(change)?))
        } else if let Some(id) = key.strip_prefix(keys::MACHINES) {
            let id = Label::from_field("machine", id)?;
            Changed::Machine(turn(&mut self.machines, id, read(change)?))
        } else if let Some(name) = key.strip_prefix(keys::CLUSTERS) {
            let name = Label::from_field("cluster", name)?;
            Changed::Cluster(turn(&mut self.clusters, name, read(change)?))
        } else {
            return Ok(None);
        };
        Ok(Some(changed))
    }

    /// When the record of a key was last written, as far as is known here.
    pub(crate) fn revision_of(&self, key: &str) -> Option<Revision> {
        if let Some(id) = key.strip_prefix(keys::INSTANCES) {
            self.instances.get(id).map(|kept| kept.revision)
        } else if let Some(id) = key.strip_prefix(keys::WORKLOADS) {
            self.workloads.get(id).map(|kept| kept.revision)
        } else if let Some(name) = key.strip_prefix(keys::NODES) {
            self.nodes.get(name).map(|kept| kept.revision)
        } else if let Some(id) = key.strip_prefix(keys::MACHINES) {
            self.machines.get(id).map(|kept| kept.revision)
        } else if let Some(name) = key.strip_prefix(keys::CLUSTERS) {
            self.clusters.get(name).map(|kept| kept.revision)
        } else {
            None
        }
    }

    fn turn_instance(&mut self, id: InstanceId, after: Option<Kept<Instance>>) -> Turn<Instance> {
        let turn = turn(&mut self.instances, id.clone(), after);
        if let Some(before) = &turn.before {
            self.forget_instance(before);
        }
        if let Some(after) = &turn.after {
            let name = (after.project.clone(), after.name.clone());
            self.instance_names.insert(name, id.clone());
            if let Some(node) = &after.node {
                let on = self.on_node.entry(node.clone()).or_default();
                on.insert(id.clone());
            }
            if let Some(workload) = &after.workload {
                let of = self.of_workload.entry(workload.clone()).or_default();
                of.insert(id);
            }
            let used = self.uses.entry(after.project.clone()).or_default();
            used.add(&after.spec.resources);
        }
        turn
    }

    fn forget_instance(&mut self, before: &Instance) {
        let name = (before.project.clone(), before.name.clone());
        if self.instance_names.get(&name) == Some(&before.id) {
            self.instance_names.remove(&name);
        }
        if let Some(node) = &before.node {
            take_out(&mut self.on_node, node, &before.id);
        }
        if let Some(workload) = &before.workload {
            take_out(&mut self.of_workload, workload, &before.id);
        }
        if let Some(used) = self.uses.get_mut(&before.project) {
            used.subtract(&before.spec.resources);
        }
    }

    fn turn_workload(&mut self, id: WorkloadId, after: Option<Kept<Workload>>) -> Turn<Workload> {
        let turn = turn(&mut self.workloads, id.clone(), after);
        if let Some(before) = &turn.before {
            let name = (before.project.clone(), before.name.clone());
            self.workload_names.remove(&name);
        }
        if let Some(after) = &turn.after {
            let name = (after.project.clone(), after.name.clone());
            self.workload_names.insert(name, id);
        }
        turn
    }
}

fn read<T: serde::de::DeserializeOwned>(change: Change) -> Result<Option<Kept<T>>, Error> {
    match change {
        Change::Put(entry) => kept(&entry).map(Some),
        Change::Deleted { .. } => Ok(None),
    }
}

fn kept<T: serde::de::DeserializeOwned>(entry: &Entry) -> Result<Kept<T>, Error> {
    Ok(Kept {
        record: decode(&entry.key, &entry.value)?,
        revision: entry.changed,
    })
}

fn turn<K: Ord, T>(
    table: &mut BTreeMap<K, Arc<Kept<T>>>,
    key: K,
    after: Option<Kept<T>>,
) -> Turn<T> {
    let after = after.map(Arc::new);
    let before = match &after {
        Some(after) => table.insert(key, after.clone()),
        None => table.remove(&key),
    };
    Turn { before, after }
}

fn take_out<K: std::hash::Hash + Eq>(
    index: &mut HashMap<K, BTreeSet<InstanceId>>,
    key: &K,
    id: &InstanceId,
) {
    if let Some(set) = index.get_mut(key) {
        set.remove(id);
        if set.is_empty() {
            index.remove(key);
        }
    }
}
