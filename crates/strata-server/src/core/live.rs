//! What is measured: it changes each second, so it is kept in memory alone.
//! After a restart nodes report it again within one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use strata_api::strata::v1;
use strata_scheduler::Resources as Amounts;
use strata_types::instance::{InstanceId, Resources};
use tokio::time::Instant;

use super::pace::ReportPaces;

/// What is known of a node since it first connected to this server.
#[derive(Clone, Copy, Debug)]
pub struct NodeLive {
    /// When its last heartbeat arrived, or this server began to wait for one.
    pub heard: Instant,
    /// A heartbeat arrived since this server began to wait for one.
    pub answers: bool,
    /// What all of the machine uses.
    pub machine: Amounts,
    /// What its instances use.
    pub instances: Amounts,
}

#[derive(Debug, Default)]
pub struct Live {
    nodes: RwLock<HashMap<String, NodeLive>>,
    instances: RwLock<HashMap<InstanceId, Amounts>>,
    /// When nodes that do not follow their assignments last read them.
    reads: RwLock<HashMap<String, Instant>>,
    /// Nodes that reported their use since placement last read them.
    news: Mutex<HashSet<String>>,
    /// By node and id, instances that no record is of.
    unknown: RwLock<HashMap<String, BTreeMap<String, UnknownInstance>>>,
    /// How fast nodes may report.
    pub(crate) paces: ReportPaces,
}

/// An instance on a node that no record here is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownInstance {
    pub id: String,
    /// The control plane that assigned it; empty where that is not known.
    pub control_plane: String,
    pub runs: bool,
}

/// So many are remembered of one node.
const MAX_UNKNOWN: usize = 1000;

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// A node reported its use.
    pub(crate) fn heard(&self, node: &str, machine: Amounts, instances: Amounts) {
        self.note(node, machine, instances, true);
    }

    fn note(&self, node: &str, machine: Amounts, instances: Amounts, answers: bool) {
        let live = NodeLive {
            heard: Instant::now(),
            answers,
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
        let (machine, instances) = self.used_on(node);
        self.heard(node, machine, instances);
    }

    /// From now on a node has its whole lease to give a sign of life.
    pub(crate) fn await_heartbeat(&self, node: &str) {
        let (machine, instances) = self.used_on(node);
        self.note(node, machine, instances, false);
    }

    fn used_on(&self, node: &str) -> (Amounts, Amounts) {
        let known = self.node(node);
        known.map_or((Amounts::NONE, Amounts::NONE), |live| {
            (live.machine, live.instances)
        })
    }

    /// A node reports an instance; whether that is unknown here.
    pub(crate) fn note_unknown(&self, node: &str, told: &v1::InstanceReport, unknown: bool) {
        let mut all = write(&self.unknown);
        if !unknown {
            if let Some(of_node) = all.get_mut(node) {
                of_node.remove(&told.id);
            }
            return;
        }
        let of_node = all.entry(node.to_owned()).or_default();
        if of_node.len() < MAX_UNKNOWN {
            let control_plane = told.control_plane.chars().filter(|c| !c.is_control());
            let one = UnknownInstance {
                id: told.id.clone(),
                control_plane: control_plane.take(64).collect(),
                runs: told.state() == v1::PodState::Running,
            };
            of_node.insert(told.id.clone(), one);
        }
    }

    /// A node begins to report what it has.
    pub(crate) fn clear_unknown(&self, node: &str) {
        write(&self.unknown).remove(node);
    }

    /// The instances of a node that no record is of.
    pub fn unknown_on(&self, node: &str) -> Vec<UnknownInstance> {
        let all = read(&self.unknown);
        let of_node = all.get(node).into_iter();
        of_node
            .flat_map(|of_node| of_node.values().cloned())
            .collect()
    }

    /// The nodes that reported their use since the last call.
    pub(crate) fn take_measured(&self) -> HashSet<String> {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *news)
    }

    pub(crate) fn remove_node(&self, node: &str) {
        self.clear_unknown(node);
        self.paces.remove(node);
        write(&self.nodes).remove(node);
        write(&self.reads).remove(node);
    }

    /// A node read which instances it has.
    pub(crate) fn read_instances(&self, node: &str) {
        write(&self.reads).insert(node.to_owned(), Instant::now());
    }

    /// How long ago it last did; none when it never has since this server
    /// started.
    pub(crate) fn unread_for(&self, node: &str) -> Option<Duration> {
        read(&self.reads).get(node).map(Instant::elapsed)
    }

    /// What is known of a node.
    pub fn node(&self, node: &str) -> Option<NodeLive> {
        read(&self.nodes).get(node).copied()
    }

    pub(crate) fn set_instance(&self, id: &InstanceId, used: Amounts) {
        write(&self.instances).insert(id.clone(), used);
    }

    pub(crate) fn unindex_instance(&self, id: &InstanceId) {
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
