//! What is measured: it changes each second, so it is kept in memory alone.
//! After a restart it is told anew within one.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use strata_scheduler::Resources as Amounts;
use strata_types::instance::{InstanceId, Resources};

/// What is known of a node since this server heard of it.
#[derive(Clone, Copy, Debug)]
pub struct NodeLive {
    /// When it was last heard of.
    pub heard: Instant,
    /// What all of the machine uses.
    pub machine: Amounts,
    /// What its instances use.
    pub instances: Amounts,
}

/// All measurements.
#[derive(Debug, Default)]
pub struct Live {
    nodes: RwLock<HashMap<String, NodeLive>>,
    instances: RwLock<HashMap<InstanceId, Amounts>>,
    /// Nodes that told their use since placement last looked.
    news: Mutex<HashSet<String>>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// A node told its use.
    pub(crate) fn heard(&self, node: &str, machine: Amounts, instances: Amounts) {
        let live = NodeLive {
            heard: Instant::now(),
            machine,
            instances,
        };
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        if !news.contains(node) {
            news.insert(node.to_owned());
        }
        drop(news);
        let mut nodes = write(&self.nodes);
        if let Some(known) = nodes.get_mut(node) {
            *known = live;
        } else {
            nodes.insert(node.to_owned(), live);
        }
    }

    /// A node gave a sign of life.
    pub(crate) fn alive(&self, node: &str) {
        let known = self.node(node);
        let (machine, instances) = known.map_or((Amounts::NONE, Amounts::NONE), |live| {
            (live.machine, live.instances)
        });
        self.heard(node, machine, instances);
    }

    /// The nodes that told their use since this was last asked.
    pub(crate) fn take_news(&self) -> HashSet<String> {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *news)
    }

    pub(crate) fn forget_node(&self, node: &str) {
        write(&self.nodes).remove(node);
    }

    /// What is known of a node.
    pub fn node(&self, node: &str) -> Option<NodeLive> {
        read(&self.nodes).get(node).copied()
    }

    pub(crate) fn set_instance(&self, id: &InstanceId, used: Amounts) {
        write(&self.instances).insert(id.clone(), used);
    }

    pub(crate) fn forget_instance(&self, id: &InstanceId) {
        write(&self.instances).remove(id);
    }

    /// What an instance uses.
    pub fn usage(&self, id: &InstanceId) -> Resources {
        let used = read(&self.instances).get(id).copied();
        used.map_or_else(Resources::default, |used| {
            Resources::from_amounts(used.cpu, used.memory, used.disk)
        })
    }
}
