//! The fleet: a snapshot of nodes and of what is placed on them, that is kept
//! up to date change by change and from which placement decides.
//!
//! It holds no truth of its own: the keeper of the records builds it from them
//! and repeats every change. Each change costs about a microsecond or less,
//! whatever the number of nodes.

mod hosts;
mod instances;
mod nodes;
mod reserve;
mod slot;

use std::collections::HashMap;

use crate::compiled_rules::CompiledRules;
use crate::index::{Cell, DiskIndex, Grid, PortIndex};
use crate::{FleetError, InstanceId, NodeId, NodeSpec, NodeState, Policy, Resources};
pub(crate) use instances::{Instance, Instances};
pub(crate) use nodes::Nodes;
pub(crate) use slot::Slot;

/// How a fleet decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Where rules name no other.
    pub policy: Policy,
    /// Decides among equals under the policy [`Policy::Spread`].
    pub seed: u64,
}

/// The snapshot from which placement decides.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub(crate) settings: Settings,
    pub(crate) nodes: Nodes,
    pub(crate) instances: Instances,
    pub(crate) compiled_rules: CompiledRules,
    pub(crate) grid: Grid,
    pub(crate) disks: DiskIndex,
    pub(crate) ports: PortIndex,
    /// What each node has free: all that most decisions read.
    pub(crate) free: Vec<Resources>,
    /// Nodes by the name of the host that they are nested in.
    pub(crate) nested: HashMap<String, Vec<usize>>,
}

impl Fleet {
    /// An empty fleet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Adds a node, ready and empty.
    pub fn add_node(&mut self, spec: NodeSpec) -> Result<NodeId, FleetError> {
        if self.nodes.named(&spec.name).is_some() {
            return Err(FleetError::NodeExists(spec.name));
        }
        let ports = spec.ports.clone();
        let node = self.nodes.insert(Slot::new(spec));
        for port in ports {
            self.ports.take(port, node);
        }
        self.nest(node);
        self.refile(node);
        Ok(NodeId(node as u32))
    }

    /// Replaces what a node is and offers. Its instances stay, even where it
    /// does not offer enough for them any more.
    pub fn update_node(&mut self, id: NodeId, spec: NodeSpec) -> Result<(), FleetError> {
        self.nodes.find(id)?;
        let node = id.slot();
        if self
            .nodes
            .named(&spec.name)
            .is_some_and(|other| other != node)
        {
            return Err(FleetError::NodeExists(spec.name));
        }
        self.give_back_ports(node);
        let before = self.neighbours(node);
        self.unnest(node);
        self.nodes.change(node, |slot| slot.respecify(spec));
        self.nest(node);
        self.take_ports(node);
        self.refile(node);
        for other in before {
            self.refile_alone(other);
        }
        Ok(())
    }

    /// Removes a node. Answers the instances that were on it and now are
    /// nowhere.
    pub fn remove_node(&mut self, id: NodeId) -> Result<Vec<InstanceId>, FleetError> {
        let mut lost = self.instances_on(id)?;
        lost.sort_unstable();
        for instance in &lost {
            self.release(*instance)?;
        }
        self.give_back_ports(id.slot());
        let before = self.neighbours(id.slot());
        self.unnest(id.slot());
        self.nodes.remove(id.slot());
        self.refile(id.slot());
        for other in before {
            self.refile_alone(other);
        }
        Ok(lost)
    }

    /// Opens a node for instances, or closes it. Instances stay.
    pub fn set_state(&mut self, id: NodeId, state: NodeState) -> Result<(), FleetError> {
        if self.nodes.find(id)?.state != state {
            self.nodes.change(id.slot(), |slot| slot.state = state);
            self.refile(id.slot());
        }
        Ok(())
    }

    /// Reports what the instances of a node really use, measured just now.
    pub fn measure(&mut self, id: NodeId, used: Resources) -> Result<(), FleetError> {
        self.nodes.find_mut(id)?.measure(used);
        self.refile(id.slot());
        Ok(())
    }

    /// The handle of a node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.named(name).map(|node| NodeId(node as u32))
    }

    /// All nodes, by handle.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().map(|(node, _)| NodeId(node as u32))
    }

    /// What a node is.
    pub fn spec(&self, id: NodeId) -> Result<&NodeSpec, FleetError> {
        self.nodes.find(id).map(|slot| &*slot.spec)
    }

    /// Whether a node takes instances.
    pub fn state(&self, id: NodeId) -> Result<NodeState, FleetError> {
        self.nodes.find(id).map(|slot| slot.state)
    }

    /// What can still be placed on a node.
    pub fn free(&self, id: NodeId) -> Result<Resources, FleetError> {
        let slot = self.nodes.find(id)?;
        Ok(self.free_of(id.slot(), slot))
    }

    /// The sum of what its instances reserve.
    pub fn reserved(&self, id: NodeId) -> Result<Resources, FleetError> {
        self.nodes.find(id).map(|slot| slot.reserved)
    }

    /// The instances on a node, in no order.
    pub fn instances_on(&self, id: NodeId) -> Result<Vec<InstanceId>, FleetError> {
        let places = self.nodes.find(id)?.instances.iter();
        let instances = places.filter_map(|&place| self.instances.get(place));
        Ok(instances.map(|instance| instance.id).collect())
    }

    /// Where an instance is.
    #[must_use]
    pub fn place_of(&self, instance: InstanceId) -> Option<NodeId> {
        let place = self.instances.place(instance)?;
        self.instances
            .get(place)
            .map(|instance| NodeId(instance.node))
    }

    /// How many instances are placed.
    #[must_use]
    pub fn placed(&self) -> usize {
        self.instances.len()
    }

    /// What a node has free, with what is left of a host that it shares.
    pub(crate) fn free_of(&self, node: usize, slot: &Slot) -> Resources {
        match self.left_of_host(node) {
            Some(left) => slot.free().least(&left),
            None => slot.free(),
        }
    }

    /// Files a node in the indexes under what it has free now, and those that
    /// share a host with it.
    pub(crate) fn refile(&mut self, node: usize) {
        self.refile_alone(node);
        for other in self.neighbours(node) {
            self.refile_alone(other);
        }
    }

    fn refile_alone(&mut self, node: usize) {
        let slot = self.nodes.get(node);
        let free = slot.map_or(Resources::NONE, |slot| self.free_of(node, slot));
        let ready = slot.is_some_and(|slot| slot.state == NodeState::Ready);
        if node >= self.free.len() {
            self.free.resize(node + 1, Resources::NONE);
        }
        self.free[node] = free;
        self.grid.put(node, ready.then(|| Cell::of(&free)));
        self.disks.put(node, ready.then_some(free.disk));
    }

    fn give_back_ports(&mut self, node: usize) {
        for (port, _) in self.nodes.get(node).map_or(&[][..], |slot| &slot.ports) {
            self.ports.free(*port, node);
        }
    }

    fn take_ports(&mut self, node: usize) {
        for (port, _) in self.nodes.get(node).map_or(&[][..], |slot| &slot.ports) {
            self.ports.take(*port, node);
        }
    }
}
