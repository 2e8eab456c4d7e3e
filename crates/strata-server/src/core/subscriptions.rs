//! Who waits for changes, each in the way that suits it: placement and links
//! by sets that never grow beyond what there is, watchers of one instance by
//! a short queue, lists and events by one broadcast.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_types::instance::InstanceId;
use tokio::sync::broadcast;

use super::Dirty;
use super::record::Instance;
use super::tables::{Changed, Kept};

/// Changes that one watcher of an instance may be behind.
const BEHIND: usize = 64;
/// Changes that whoever watches all may be behind.
const ALL_BEHIND: usize = 4096;

/// Something of an instance changed.
#[derive(Clone, Debug)]
pub enum Update {
    /// Its record.
    Is(Arc<Kept<Instance>>),
    /// What it uses.
    Usage,
    /// It is gone; this is how it was.
    Gone(Arc<Kept<Instance>>),
}

/// What placement looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Touched {
    /// An instance.
    Instance(InstanceId),
    /// A node.
    Node(String),
}

/// Who waits.
pub(crate) struct Subscriptions {
    /// For placement.
    pub(crate) placement: Dirty<Touched>,
    /// For whoever tells nodes of each other.
    pub(crate) peers: broadcast::Sender<()>,
    links: Mutex<HashMap<String, Arc<Dirty<InstanceId>>>>,
    instances: Mutex<HashMap<InstanceId, broadcast::Sender<Update>>>,
    all: broadcast::Sender<Changed>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            placement: Dirty::new(),
            peers: broadcast::Sender::new(1),
            links: Mutex::default(),
            instances: Mutex::default(),
            all: broadcast::Sender::new(ALL_BEHIND),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// A link ended.
    pub(crate) fn unlink(&self, node: &str, ended: &Arc<Dirty<InstanceId>>) {
        let mut links = lock(&self.links);
        if links.get(node).is_some_and(|now| Arc::ptr_eq(now, ended)) {
            links.remove(node);
        }
    }

    /// Changes to one instance from now on.
    pub(crate) fn instance(&self, id: &InstanceId) -> broadcast::Receiver<Update> {
        let mut all = lock(&self.instances);
        let sender = all.entry(id.clone());
        sender
            .or_insert_with(|| broadcast::Sender::new(BEHIND))
            .subscribe()
    }

    /// Somebody does not listen any more. The last one leaves nothing behind.
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
    pub(crate) fn all(&self) -> broadcast::Receiver<Changed> {
        self.all.subscribe()
    }

    pub(crate) fn tell_instance(&self, id: &InstanceId, update: Update) {
        let mut all = lock(&self.instances);
        if let Some(sender) = all.get(id)
            && sender.send(update).is_err()
        {
            all.remove(id);
        }
    }

    /// A record changed.
    pub(crate) fn tell(&self, changed: &Changed) {
        match changed {
            Changed::Instance(turn) => {
                let (before, after) = (turn.before.as_ref(), turn.after.as_ref());
                let Some(either) = after.or(before) else {
                    return;
                };
                let id = &either.id;
                self.placement.mark(Touched::Instance(id.clone()));
                let nodes = [before, after].map(|one| one.and_then(|one| one.node.clone()));
                let links = lock(&self.links);
                for node in nodes.into_iter().flatten() {
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
                self.tell_instance(id, update);
            }
            Changed::Node(turn) => {
                if let Some(either) = turn.after.as_ref().or(turn.before.as_ref()) {
                    self.placement.mark(Touched::Node(either.name.clone()));
                }
                let route = |node: &Option<Arc<Kept<super::Node>>>| {
                    // Nobody can send anything to one without an address.
                    let node = node.as_ref().filter(|node| !node.address.is_empty())?;
                    Some((node.subnet.clone(), node.address.clone()))
                };
                if route(&turn.before) != route(&turn.after) {
                    let _ = self.peers.send(());
                }
            }
            Changed::Workload(_)
            | Changed::Project(_)
            | Changed::Machine(_)
            | Changed::Cluster(_) => {}
        }
        let _ = self.all.send(changed.clone());
    }
}
