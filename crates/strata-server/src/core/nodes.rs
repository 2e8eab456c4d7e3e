//! Nodes: registered with a subnet of their own, seen, drained, lost, gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_store::{StoreError, Transaction};
use strata_types::instance::Resources;
use strata_types::{Error, Result};

use super::commit::As;
use super::follow::public;
use super::record::{Node, NodeCondition, encode};
use super::tables::Kept;
use super::{Core, Precondition, Who, keys, now_ms};

/// What a node tells when it comes.
#[derive(Clone, Debug, Default)]
pub struct Registration {
    /// The name of its certificate.
    pub name: String,
    /// The subnet that it has already, if any.
    pub subnet: Option<String>,
}

/// What a node tells of itself while it is there. What is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Where other nodes send what is for its instances.
    pub address: Option<String>,
    /// Of its software.
    pub version: Option<String>,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Thousandths of a core, bytes of memory, bytes of disk.
    pub capacity: Option<(u64, u64, u64)>,
    /// Kind and number.
    pub gpus: Option<BTreeMap<String, u32>>,
    /// Whether it runs virtual machines.
    pub runs_vms: Option<bool>,
    /// The id of the storage pool that it reaches; empty when it reaches none.
    pub pool: Option<String>,
    /// Whether it follows its assignments.
    pub follows: Option<bool>,
    /// That it says itself that it does not work, and why.
    pub fails: Option<String>,
}

/// A change to what people say of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeChange {
    /// Merged; an empty value takes a label away.
    pub labels: BTreeMap<String, String>,
    /// Closes it and empties it, or opens it again.
    pub draining: Option<bool>,
    /// It goes when it is empty.
    pub leaves: bool,
}

/// A subnet that is about to be given.
struct HeldSubnet<'a> {
    core: &'a Core,
    subnet: String,
}

impl Drop for HeldSubnet<'_> {
    fn drop(&mut self) {
        lock(&self.core.0.held_subnets).remove(&self.subnet);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// A node by its name.
    pub fn node(&self, name: &str) -> Result<Arc<Kept<Node>>> {
        self.tables().nodes.get(name).cloned().ok_or_else(|| {
            let name: String = name.chars().take(140).collect();
            Error::not_found(format!("there is no node {name}"))
                .with_hint("see those there are: strata node list")
        })
    }

    /// Whether a node of this name is there now.
    pub fn node_is_ready(&self, name: &str) -> bool {
        let ready = |node: &Node| node.condition == NodeCondition::Ready;
        self.node(name).is_ok_and(|node| ready(&node))
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<Arc<Kept<Node>>> {
        self.tables().nodes.values().cloned().collect()
    }

    /// How many instances are on a node.
    pub fn instances_on(&self, node: &str) -> usize {
        self.tables().on_node.get(node).map_or(0, BTreeSet::len)
    }

    /// The names of some of them.
    pub(crate) fn names_on(&self, node: &str, most: usize) -> Vec<String> {
        let tables = self.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        on.filter_map(|id| tables.instances.get(id))
            .map(|one| one.name.to_string())
            .take(most)
            .collect()
    }

    /// What is kept free on a node for its instances.
    pub fn reserved_on(&self, node: &str) -> Resources {
        let tables = self.tables();
        let on = tables.on_node.get(node).into_iter().flatten();
        let instances = on.filter_map(|id| tables.instances.get(id));
        instances.fold(Resources::default(), |sum, one| {
            let more = one.spec.resources;
            Resources {
                cpu: sum.cpu.saturating_add(more.cpu),
                memory: sum.memory.saturating_add(more.memory),
                disk: sum.disk.saturating_add(more.disk),
            }
        })
    }

    /// Registers a node: the same node again has the same subnet.
    pub async fn register_node(&self, registration: &Registration) -> Result<Arc<Kept<Node>>> {
        let name = &registration.name;
        // Others may take what was free a moment ago.
        for _ in 0..64 {
            if let Some(known) = self.tables().nodes.get(name).cloned() {
                return Ok(known);
            }
            let held = self.hold_subnet(registration.subnet.as_deref())?;
            let subnet = held.subnet.clone();
            let now = now_ms();
            let record = Node {
                name: name.clone(),
                subnet: subnet.clone(),
                address: String::new(),
                version: String::new(),
                labels: BTreeMap::new(),
                own_labels: BTreeMap::new(),
                cpu: 0,
                memory: 0,
                disk: 0,
                gpus: BTreeMap::new(),
                runs_vms: false,
                pool: String::new(),
                follows: false,
                condition: NodeCondition::Registered,
                description: String::new(),
                draining: false,
                leaving: false,
                created_at_ms: now,
                changed_at_ms: now,
            };
            let (key, taken) = (keys::node(name), keys::subnet(&subnet));
            let transaction = Transaction::new()
                .if_absent(&*key)
                .if_absent(&*taken)
                .put(&*key, encode(&record)?)
                .put(taken, name.clone());
            match self.commit(transaction).await {
                Ok(_) => return self.node(name),
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable("too many nodes register at once"))
    }

    pub(super) async fn caught_up(&self, key: &str) -> Result<()> {
        if let Some(entry) = self.0.store.get(key).await.map_err(public)? {
            self.settle(entry.changed).await;
        }
        Ok(())
    }

    /// The subnet that a node has and may keep, or the first that is free.
    /// It is held until it is written, so that those who come at the same time
    /// are not all offered the same.
    fn hold_subnet(&self, wanted: Option<&str>) -> Result<HeldSubnet<'_>> {
        let range = self.settings().range;
        let mut held = lock(&self.0.held_subnets);
        let tables = self.tables();
        let taken: std::collections::HashSet<&str> = tables
            .nodes
            .values()
            .map(|node| node.subnet.as_str())
            .collect();
        let free = |subnet: &str| !taken.contains(subnet) && !held.contains(subnet);
        let asked = wanted.filter(|wanted| range.has(wanted) && free(wanted));
        let found = asked.map(str::to_owned);
        let found = found.or_else(|| range.subnets().find(|subnet| free(subnet)));
        let subnet = found.ok_or_else(|| {
            Error::exhausted(format!("all subnets of {range} are given to nodes"))
                .with_hint("let nodes leave that are gone for good, or use a wider range")
        })?;
        held.insert(subnet.clone());
        Ok(HeldSubnet { core: self, subnet })
    }

    /// A node is there, and tells of itself.
    pub async fn see_node(&self, name: &str, seen: &Seen) -> Result<Arc<Kept<Node>>> {
        self.live().alive(name);
        self.change_node(name, Precondition::default(), |now| {
            let mut next = now.clone();
            let condition = match &seen.fails {
                None => NodeCondition::Ready,
                Some(_) => NodeCondition::Lost,
            };
            let description = seen.fails.clone().unwrap_or_default();
            if next.condition != condition {
                next.changed_at_ms = now_ms();
            }
            next.condition = condition;
            next.description = description;
            fn take<T: Clone>(into: &mut T, from: &Option<T>) {
                if let Some(from) = from {
                    into.clone_from(from);
                }
            }
            take(&mut next.address, &seen.address);
            take(&mut next.version, &seen.version);
            take(&mut next.labels, &seen.labels);
            take(&mut next.gpus, &seen.gpus);
            take(&mut next.runs_vms, &seen.runs_vms);
            take(&mut next.pool, &seen.pool);
            take(&mut next.follows, &seen.follows);
            if let Some((cpu, memory, disk)) = seen.capacity {
                (next.cpu, next.memory, next.disk) = (cpu, memory, disk);
            }
            next
        })
        .await
    }

    /// Nothing was heard of a node for too long, or it is known to be gone.
    pub(crate) async fn lose_node(&self, name: &str, why: &str) -> Result<Arc<Kept<Node>>> {
        self.change_node_as(As::Leader, name, Precondition::default(), |now| {
            let mut next = now.clone();
            if next.condition != NodeCondition::Lost {
                next.condition = NodeCondition::Lost;
                why.clone_into(&mut next.description);
                next.changed_at_ms = now_ms();
            }
            next
        })
        .await
    }

    /// Closes a node and empties it, or opens it again.
    pub async fn drain_node(
        &self,
        who: &Who,
        name: &str,
        draining: bool,
    ) -> Result<Arc<Kept<Node>>> {
        let draining = Some(draining);
        let change = NodeChange {
            draining,
            ..NodeChange::default()
        };
        self.update_node(who, name, &change, Precondition::default())
            .await
    }

    /// Says something about a node; an empty value takes a label away.
    pub async fn label_node(
        &self,
        who: &Who,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Arc<Kept<Node>>> {
        let labels = labels.clone();
        let change = NodeChange {
            labels,
            ..NodeChange::default()
        };
        self.update_node(who, name, &change, Precondition::default())
            .await
    }

    /// The same for an operation, which asks for nobody.
    pub(crate) async fn change_node_for_operation(
        &self,
        name: &str,
        change: &NodeChange,
    ) -> Result<()> {
        let who = Who::server("operation");
        let any = Precondition::default();
        self.update_node(&who, name, change, any).await.map(drop)
    }

    /// Changes what people say of a node, all at once.
    pub async fn update_node(
        &self,
        who: &Who,
        name: &str,
        change: &NodeChange,
        precondition: Precondition,
    ) -> Result<Arc<Kept<Node>>> {
        who.everywhere()?;
        let opened = change.draining == Some(false);
        if (opened || change.leaves)
            && let Ok(machine) = self.machine(name)
            && let Some(cluster) = &machine.cluster
        {
            let why = format!("node {name} is of a machine of cluster {cluster}");
            return Err(Error::wrong_state(why)
                .with_hint("it takes no instances, and goes with its cluster"));
        }
        for (key, value) in &change.labels {
            let plain = |text: &str| !text.contains(char::is_control);
            if key.is_empty()
                || key.len() > 128
                || value.len() > 256
                || !plain(key)
                || !plain(value)
            {
                let key: String = key.chars().take(80).collect();
                let why = "must be 1 to 128 characters, its value at most 256";
                return Err(Error::invalid(format!("labels.{key}"), why));
            }
        }
        self.change_node(name, precondition, |now| {
            let mut next = now.clone();
            for (key, value) in &change.labels {
                match value.as_str() {
                    "" => drop(next.own_labels.remove(key)),
                    value => drop(next.own_labels.insert(key.clone(), value.to_owned())),
                }
            }
            if let Some(draining) = change.draining {
                next.draining = draining;
                next.leaving &= draining;
            }
            if change.leaves {
                (next.draining, next.leaving) = (true, true);
            }
            next
        })
        .await
    }

    /// Lets a node leave: it is emptied first, then forgotten.
    pub async fn leave_node(&self, name: &str) -> Result<Arc<Kept<Node>>> {
        self.change_node(name, Precondition::default(), |now| {
            let mut next = now.clone();
            (next.draining, next.leaving) = (true, true);
            next
        })
        .await
    }

    /// Forgets a node that has no instances any more.
    pub(crate) async fn forget_node(&self, name: &str) -> Result<()> {
        let Some(now) = self.tables().nodes.get(name).cloned() else {
            return Ok(());
        };
        let key = keys::node(name);
        let gone = Transaction::new()
            .if_unchanged(&*key, now.revision)
            .delete(key)
            .delete(keys::subnet(&now.subnet));
        self.commit_as_leader(gone).await.map_err(public)?;
        self.live().forget_node(name);
        Ok(())
    }

    async fn change_node(
        &self,
        name: &str,
        precondition: Precondition,
        rule: impl FnMut(&Node) -> Node,
    ) -> Result<Arc<Kept<Node>>> {
        self.change_node_as(As::Anybody, name, precondition, rule)
            .await
    }

    async fn change_node_as(
        &self,
        who: As,
        name: &str,
        precondition: Precondition,
        mut rule: impl FnMut(&Node) -> Node,
    ) -> Result<Arc<Kept<Node>>> {
        for _ in 0..32 {
            let now = self.node(name)?;
            precondition.check(&now)?;
            let next = rule(&now);
            if next == now.record {
                return Ok(now);
            }
            let key = keys::node(name);
            let transaction = Transaction::new()
                .if_unchanged(&*key, now.revision)
                .put(&*key, encode(&next)?);
            let written = match who {
                As::Anybody => self.commit(transaction).await,
                As::Leader => self.commit_as_leader(transaction).await,
            };
            match written {
                Ok(_) => return self.node(name),
                Err(StoreError::Conflict { key }) => self.caught_up(&key).await?,
                Err(error) => return Err(public(error)),
            }
        }
        Err(Error::unavailable(format!("{name} changes too fast")))
    }
}
