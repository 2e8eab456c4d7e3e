//! The fleet, kept true to the records: one change of a record is one change
//! of the fleet.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use strata_scheduler::{
    Cause, Constraint, Fleet, Gpus, InstanceId as Slot, Kind, NodeId, NodeSpec, NodeState,
    POOL_LABEL, Preference, Request, Resources, Rules,
};
use strata_store::Revision;
use strata_types::Label;
use strata_types::instance::{InstanceId, InstanceSpec};
use strata_types::machine::ProviderKind;
use uuid::Uuid;

use crate::core::{
    Core, DesiredState, Instance, Node, NodeCondition, NodePhase, host_of, keys, placement_rules,
};

/// A node that only reports its status gets what no other can have.
const FOLLOWS_LABEL: &str = "strata.dev/follows";
/// Worth more than what people's requests sum up to.
const FOLLOWER_PREFERENCE: i32 = 1_000_000;

/// The fleet and what it is made from.
pub(super) struct FleetCache {
    pub(super) fleet: Fleet,
    /// How an instance is counted, as long as it is.
    counted: HashMap<Slot, (InstanceId, u64, String)>,
    /// Instances with the same rules share them.
    shared: HashMap<Rules, std::sync::Weak<Rules>>,
    /// Nodes that only report their status.
    status_only_nodes: usize,
    /// The revision of the record that each node is counted by.
    revisions: HashMap<String, Revision>,
}

/// The bits of an id: a UUID's own, or those of its hash.
pub(super) fn slot(id: &InstanceId) -> Slot {
    // A UUID can be written in several ways, and each is another id.
    let usual = |uuid: &Uuid| {
        let mut buffer = Uuid::encode_buffer();
        *uuid.hyphenated().encode_lower(&mut buffer) == *id.as_str()
    };
    let uuid = Uuid::try_parse(id.as_str()).ok().filter(usual);
    Slot(uuid.map(|uuid| uuid.as_u128()).unwrap_or_else(|| {
        let digest = Sha256::digest(id.as_str());
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        u128::from_be_bytes(first)
    }))
}

impl FleetCache {
    pub(super) fn new(core: &Core) -> Self {
        let mut cache = Self {
            fleet: Fleet::new(core.settings().placement),
            counted: HashMap::new(),
            shared: HashMap::new(),
            status_only_nodes: 0,
            revisions: HashMap::new(),
        };
        let nodes: Vec<String> = core.tables().nodes.keys().cloned().collect();
        for node in nodes {
            cache.sync_node(core, &node);
        }
        let instances: Vec<InstanceId> = core.tables().instances.keys().cloned().collect();
        for instance in instances {
            cache.sync_instance(core, &instance);
        }
        cache
    }

    /// Makes the fleet know a node as its record is.
    pub(super) fn sync_node(&mut self, core: &Core, name: &str) {
        let record = core.tables().nodes.get(name).cloned();
        match &record {
            Some(record) => self.revisions.insert(name.to_owned(), record.revision),
            None => self.revisions.remove(name),
        };
        let known = self.fleet.node(name);
        match (&record, known) {
            (None, Some(id)) => {
                for gone in self.fleet.remove_node(id).unwrap_or_default() {
                    self.counted.remove(&gone);
                }
            }
            (None, None) => {}
            (Some(record), known) => {
                let spec = node_spec(record, core);
                let id = match known {
                    Some(id) if self.fleet.spec(id).is_ok_and(|now| *now == spec) => Some(id),
                    Some(id) => self.fleet.update_node(id, spec).ok().map(|()| id),
                    None => self.fleet.add_node(spec).ok(),
                };
                if let Some(id) = id {
                    let _ = self.fleet.set_state(id, state(record));
                }
            }
        }
        self.status_only_nodes = core
            .tables()
            .nodes
            .values()
            .filter(|node| !node.follows && node.condition == NodeCondition::Ready)
            .count();
    }

    /// Makes the fleet count an instance as its record is.
    pub(super) fn sync_instance(&mut self, core: &Core, id: &InstanceId) {
        let slot = slot(id);
        let record = core.tables().instances.get(id).cloned();
        let expected = record.as_ref().and_then(|one| {
            let node = one.node.clone()?;
            Some((id.clone(), one.generation, node))
        });
        if self.counted.get(&slot) == expected.as_ref() {
            return;
        }
        if self.counted.remove(&slot).is_some() {
            let _ = self.fleet.release(slot);
        }
        if let (Some(record), Some(expected)) = (record, expected)
            && let Some(node) = self.fleet.node(&expected.2)
            && let Some(request) = self.request(core, &record)
            && self.fleet.reserve(&request, node).is_ok()
        {
            self.counted.insert(slot, expected);
        }
    }

    /// Notes what the fleet counts already, by placement.
    pub(super) fn placed(&mut self, record: &Instance, node: &str) {
        let counted = (record.id.clone(), record.generation, node.to_owned());
        self.counted.insert(slot(&record.id), counted);
    }

    /// Releases what was placed and could not be written.
    pub(super) fn release(&mut self, core: &Core, id: &InstanceId) {
        let slot = slot(id);
        if self.counted.remove(&slot).is_some() {
            let _ = self.fleet.release(slot);
        }
        self.sync_instance(core, id);
    }

    /// The revision of the record by which a node is in the fleet: what is
    /// decided with it holds as long as the record is that one.
    pub(super) fn revision_of(&self, node: &str) -> Option<Revision> {
        self.revisions.get(node).copied()
    }

    /// Makes the fleet know the nodes whose records are others by now.
    pub(super) fn sync_changed_nodes(&mut self, core: &Core) {
        let changed: Vec<String> = {
            let tables = core.tables();
            let now = |name: &String| tables.nodes.get(name).map(|node| node.revision);
            let known = self.revisions.keys().chain(tables.nodes.keys());
            let is_other = |name: &&String| now(name) != self.revisions.get(*name).copied();
            known.filter(is_other).cloned().collect()
        };
        for name in changed {
            self.sync_node(core, &name);
        }
    }

    /// The node that an instance is counted on.
    pub(super) fn place_of(&self, id: &InstanceId) -> Option<String> {
        let (_, _, node) = self.counted.get(&slot(id))?;
        Some(node.clone())
    }

    /// The id behind the bits, of an instance that is counted.
    pub(super) fn id_of(&self, slot: Slot) -> Option<InstanceId> {
        self.counted.get(&slot).map(|(id, ..)| id.clone())
    }

    pub(super) fn request(&mut self, core: &Core, record: &Instance) -> Option<Request> {
        let only = where_known(core, record);
        let rules = self.shared_rules(&record.project, &record.spec, record, only)?;
        let size = resources(&record.spec);
        let mut request = Request::new(slot(&record.id), size, rules);
        request.priority = record.spec.placement.priority;
        request.preempts = record.spec.placement.preempts;
        Some(request)
    }

    fn shared_rules(
        &mut self,
        project: &Label,
        spec: &InstanceSpec,
        record: &Instance,
        only: Vec<Constraint>,
    ) -> Option<Arc<Rules>> {
        let made = placement_rules(project, spec).ok()?;
        let mut made = Arc::unwrap_or_clone(made);
        if !record.refusals.is_empty() {
            let names = record.refusals.keys().cloned().collect();
            made.constraints.push(Constraint::NotNamed(names));
        }
        made.constraints.extend(only);
        if self.status_only_nodes > 0 {
            made.preferences.push(Preference {
                test: Constraint::Exists(FOLLOWS_LABEL.into()),
                weight: FOLLOWER_PREFERENCE,
            });
        }
        if let Some(shared) = self.shared.get(&made).and_then(std::sync::Weak::upgrade) {
            return Some(shared);
        }
        if self.shared.len() > 4096 {
            self.shared.retain(|_, rules| rules.strong_count() > 0);
        }
        let shared = Arc::new(made.clone());
        self.shared.insert(made, Arc::downgrade(&shared));
        Some(shared)
    }

    pub(super) fn node_name(&self, node: NodeId) -> String {
        self.fleet
            .spec(node)
            .map_or_else(|_| String::new(), |spec| spec.name.clone())
    }
}

/// Where an instance may go that was on nodes which are lost: their lease may be
/// extended by their witnesses, so only those know that it has ended.
fn where_known(core: &Core, record: &Instance) -> Vec<Constraint> {
    // What has no lease there is not known to have ended by any of them: it may
    // overlap, or is waited for.
    let lost = record.leaving.iter();
    let lost = lost.filter(|from| from.lost && !from.unleased);
    let tables = core.tables();
    let known = lost.filter_map(|from| match tables.nodes.get(&from.node) {
        Some(node) => node.witnesses.clone(),
        // Who its witnesses are is in a record that cannot be read.
        None => {
            let key = keys::node(&from.node);
            tables.unreadable.contains_key(&key).then(Default::default)
        }
    });
    let named = known.map(|names| Constraint::Named(names.into_iter().collect()));
    named.collect()
}

/// What an instance takes, as its node holds it to.
pub(super) fn resources(spec: &InstanceSpec) -> Resources {
    let (cpu, memory, disk) = spec.reserves();
    Resources::new(cpu, memory, disk)
}

fn node_spec(node: &Node, core: &Core) -> NodeSpec {
    let mut spec = NodeSpec::new(
        &*node.name,
        Resources::new(node.cpu, node.memory, node.disk),
    );
    spec.labels = node.all_labels();
    spec.labels.remove(FOLLOWS_LABEL);
    if node.follows {
        spec.labels.insert(FOLLOWS_LABEL.into(), "yes".into());
    }
    spec.labels.remove(POOL_LABEL);
    if !node.pool.is_empty() {
        spec.labels.insert(POOL_LABEL.into(), node.pool.clone());
    }
    let gpus = node.gpus.iter();
    spec.gpus = gpus
        .map(|(kind, count)| Gpus {
            kind: kind.clone(),
            count: *count,
        })
        .collect();
    spec.runs = match node.runs_vms || !node.follows {
        true => vec![Kind::Container, Kind::Vm],
        false => vec![Kind::Container],
    };
    spec.overcommit = core.settings().overcommit;
    spec.host = host(node, core);
    spec.dedicated = spec.host.is_some() && is_dedicated(node, core);
    spec
}

/// The node on whose host this one runs.
fn host(node: &Node, core: &Core) -> Option<String> {
    let tables = core.tables();
    host_of(&*tables, node).map(|host| host.name.clone())
}

/// Whether a nested node keeps what it has from its host: machines of clusters
/// run more than instances, and virtual machines have a memory of their own.
fn is_dedicated(node: &Node, core: &Core) -> bool {
    let machine = core.machine(&node.name);
    machine.is_ok_and(|one| one.cluster.is_some() || one.spec.provider == ProviderKind::Qemu)
}

fn state(node: &Node) -> NodeState {
    match (node.condition, node.phase) {
        (NodeCondition::Registered | NodeCondition::Lost, _) => NodeState::Lost,
        (NodeCondition::Ready, NodePhase::Stopping) => NodeState::Draining,
        (NodeCondition::Ready, _) if node.draining => NodeState::Draining,
        (NodeCondition::Ready, NodePhase::Starting) => NodeState::Starting,
        (NodeCondition::Ready, _) if node.ignores_instances => NodeState::StatusOnly,
        (NodeCondition::Ready, NodePhase::Running) => NodeState::Ready,
    }
}

/// Whether an instance needs a place.
pub(super) fn needs_placement(record: &Instance) -> bool {
    record.node.is_none() && record.desired_state == DesiredState::Running
}

/// Why there is no place, for people; with the names of nodes and of the
/// holders of their ports, or without.
pub(super) fn failure_message(cause: &Cause, names: bool) -> String {
    match cause {
        Cause::AlreadyPlaced(_) => "it has a place already".into(),
        Cause::NoNodeFits(reasons) if reasons.is_empty() => "there are no nodes".into(),
        Cause::NoNodeFits(reasons) => {
            let parts: Vec<String> = reasons
                .iter()
                .take(8)
                .map(|one| {
                    if !names {
                        let nodes = if one.nodes == 1 { "node" } else { "nodes" };
                        return format!("{} {nodes}: {}", one.nodes, one.reason.without_names());
                    }
                    let names = one.examples.iter().take(3).cloned().collect::<Vec<_>>();
                    let more = if one.nodes > names.len() { ", …" } else { "" };
                    match one.nodes {
                        1 => format!("{}: {}", names.join(", "), one.reason),
                        n => format!("{n} nodes ({}{more}): {}", names.join(", "), one.reason),
                    }
                })
                .collect();
            format!("no node fits: {}", parts.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ids_never_share_a_slot() {
        let uuid = "0192f0c4-7a3e-7b1c-9c1d-0123456789ab";
        let ids = [uuid.to_owned(), uuid.to_uppercase(), uuid.replace('-', "")];
        let ids = ids.map(|text| slot(&text.parse().unwrap()));
        assert_eq!(ids[0].to_string(), uuid, "a UUID has its own bits");
        assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
    }
}
