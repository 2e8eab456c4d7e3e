//! The subscribers of changes, each in the way that suits it: placement and
//! links by sets that never grow beyond what there is, watchers of one instance
//! by a short queue, lists and events by one broadcast.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_types::Label;
use strata_types::instance::{InstanceId, InstanceState};
use tokio::sync::broadcast;

use super::Dirty;
use super::record::{DEFAULT_PROJECT, Instance, Node};
use super::tables::{RecordChange, TableChange, Versioned};

/// Changes that one watcher of an instance may be behind.
const CHANNEL_CAPACITY: usize = 64;
/// How many changes a watcher of all may be behind.
const BROADCAST_CAPACITY: usize = 4096;

/// Something of an instance changed.
#[derive(Clone, Debug)]
pub enum Update {
    Is(Arc<Versioned<Instance>>),
    Usage,
    /// It is gone; this is how it was.
    Gone(Arc<Versioned<Instance>>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Touched {
    Instance(InstanceId),
    Node(String),
}

/// A node is to take over the instances that other control planes assigned.
#[derive(Clone, Debug)]
pub(crate) struct TakeOver {
    pub(crate) node: String,
    /// They are destroyed at once, and not after a while.
    pub(crate) destroy: bool,
}

pub(crate) struct Subscriptions {
    pub(crate) placement: Dirty<Touched>,
    /// For the task that sends nodes which project may reach which.
    pub(crate) projects: broadcast::Sender<()>,
    /// A project allows the default one, or is allowed by it: then nodes are
    /// sent its instances as well.
    pub(crate) default_matters: AtomicBool,
    /// For nodes that are to take over what others assigned.
    pub(crate) take_overs: broadcast::Sender<TakeOver>,
    links: Readers<InstanceId>,
    /// For the task that sends nodes the names of instances of other nodes.
    names: Readers<InstanceId>,
    /// For the task that sends nodes their peers.
    peers: Readers<String>,
    instances: Mutex<HashMap<InstanceId, broadcast::Sender<Update>>>,
    all: broadcast::Sender<TableChange>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            placement: Dirty::new(),
            projects: broadcast::Sender::new(1),
            default_matters: AtomicBool::new(false),
            take_overs: broadcast::Sender::new(CHANNEL_CAPACITY),
            links: Mutex::default(),
            names: Mutex::default(),
            peers: Mutex::default(),
            instances: Mutex::default(),
            all: broadcast::Sender::new(BROADCAST_CAPACITY),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What others know an instance by, while it runs.
fn called(one: &Arc<Versioned<Instance>>) -> Option<(Label, Option<String>, Option<Ipv4Addr>)> {
    let runs = one.state == InstanceState::Running;
    runs.then(|| (one.name.clone(), one.node.clone(), one.address))
}

/// What changed, for the link of each node.
type Readers<T> = Mutex<HashMap<String, Arc<Dirty<T>>>>;

/// Removes a reader, unless another has taken over from it.
fn remove_reader<T>(readers: &Readers<T>, node: &str, ended: &Arc<Dirty<T>>) {
    let mut readers = lock(readers);
    if readers.get(node).is_some_and(|now| Arc::ptr_eq(now, ended)) {
        readers.remove(node);
    }
}

impl Subscriptions {
    /// The instances of a node that changed. One reader at a time: a new link
    /// takes over from an old one.
    pub(crate) fn link(&self, node: &str) -> Arc<Dirty<InstanceId>> {
        let dirty = Arc::new(Dirty::new());
        let before = lock(&self.links).insert(node.to_owned(), dirty.clone());
        if let Some(before) = before {
            before.retire();
        }
        dirty
    }

    /// The node of an instance has to be sent something about it; all nodes
    /// where it is not known which that is.
    pub(crate) fn mark_links(&self, node: Option<&str>, id: &InstanceId) {
        for (name, link) in lock(&self.links).iter() {
            if node.is_none_or(|node| node == name) {
                link.mark(id.clone());
            }
        }
    }

    /// Whether a node follows this server now.
    pub(crate) fn is_linked(&self, node: &str) -> bool {
        lock(&self.links).contains_key(node)
    }

    pub(crate) fn unlink(&self, node: &str, ended: &Arc<Dirty<InstanceId>>) {
        remove_reader(&self.links, node, ended);
    }

    /// The instances whose name, address or place changed, for the link of a
    /// node.
    pub(crate) fn names(&self, node: &str) -> Arc<Dirty<InstanceId>> {
        let dirty = Arc::new(Dirty::new());
        lock(&self.names).insert(node.to_owned(), dirty.clone());
        dirty
    }

    /// A link does not report names any more.
    pub(crate) fn unlink_names(&self, node: &str, ended: &Arc<Dirty<InstanceId>>) {
        remove_reader(&self.names, node, ended);
    }

    /// The nodes that are reached in another way, for the link of a node.
    pub(crate) fn peers(&self, node: &str) -> Arc<Dirty<String>> {
        let dirty = Arc::new(Dirty::new());
        lock(&self.peers).insert(node.to_owned(), dirty.clone());
        dirty
    }

    /// A link does not report other nodes any more.
    pub(crate) fn unlink_peers(&self, node: &str, ended: &Arc<Dirty<String>>) {
        remove_reader(&self.peers, node, ended);
    }

    /// These nodes are reached in another way.
    pub(crate) fn mark_peers(&self, names: &HashSet<String>) {
        for reader in lock(&self.peers).values() {
            for name in names {
                reader.mark(name.clone());
            }
        }
    }

    /// Changes to one instance from now on.
    pub(crate) fn instance(&self, id: &InstanceId) -> broadcast::Receiver<Update> {
        let mut all = lock(&self.instances);
        let sender = all.entry(id.clone());
        sender
            .or_insert_with(|| broadcast::Sender::new(CHANNEL_CAPACITY))
            .subscribe()
    }

    /// A caller does not listen any more. The last one leaves nothing behind.
    pub(crate) fn leave_instance(&self, id: &InstanceId) {
        let mut all = lock(&self.instances);
        if all
            .get(id)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            all.remove(id);
        }
    }

    /// All changes from now on.
    pub(crate) fn all(&self) -> broadcast::Receiver<TableChange> {
        self.all.subscribe()
    }

    pub(crate) fn notify_instance(&self, id: &InstanceId, update: Update) {
        let mut all = lock(&self.instances);
        if let Some(sender) = all.get(id)
            && sender.send(update).is_err()
        {
            all.remove(id);
        }
    }

    pub(crate) fn notify(&self, changed: &TableChange) {
        match changed {
            TableChange::Instance(change) => {
                let (before, after) = (change.before.as_ref(), change.after.as_ref());
                let Some(either) = after.or(before) else {
                    return;
                };
                let matters = self.default_matters.load(Ordering::Relaxed);
                if matters || either.project.as_str() != DEFAULT_PROJECT {
                    let place = |one: &Arc<Versioned<Instance>>| (one.node.clone(), one.address);
                    if before.map(place) != after.map(place) {
                        let _ = self.projects.send(());
                    }
                }
                let id = &either.id;
                if before.and_then(called) != after.and_then(called) {
                    for reader in lock(&self.names).values() {
                        reader.mark(id.clone());
                    }
                }
                self.placement.mark(Touched::Instance(id.clone()));
                let either_way = before.into_iter().chain(after);
                let nodes = either_way.flat_map(|one| {
                    let left = one.leaving.iter().map(|from| from.node.clone());
                    one.node.clone().into_iter().chain(left)
                });
                let links = lock(&self.links);
                for node in nodes {
                    if let Some(link) = links.get(&node) {
                        link.mark(id.clone());
                    }
                }
                drop(links);
                let update = match (before, after) {
                    (_, Some(after)) => Update::Is(after.clone()),
                    (Some(before), None) => Update::Gone(before.clone()),
                    (None, None) => return,
                };
                self.notify_instance(id, update);
            }
            TableChange::Node(change) => {
                if let Some(either) = change.after.as_ref().or(change.before.as_ref()) {
                    self.placement.mark(Touched::Node(either.name.clone()));
                }
            }
            TableChange::Project(_) => drop(self.projects.send(())),
            TableChange::Workload(_) | TableChange::Machine(_) | TableChange::Cluster(_) => {}
        }
        let _ = self.all.send(changed.clone());
    }
}

/// Whether a node came or went, or others reach it in another way than before.
pub(crate) fn is_reached_otherwise(change: &RecordChange<Node>) -> bool {
    let route = |node: &Option<Arc<Versioned<Node>>>| {
        // None can send anything to one without an address.
        let node = node.as_ref()?;
        (node.beside_server || !node.address.is_empty()).then(|| {
            (
                node.subnet.clone(),
                (node.address.clone(), node.address_proven),
                node.beside_server,
                node.overlay.clone(),
                node.witness_port,
            )
        })
    };
    let came_or_went = change.before.is_some() != change.after.is_some();
    came_or_went || route(&change.before) != route(&change.after)
}
