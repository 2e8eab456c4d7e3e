//! Instances come to nodes and leave them. What one does, the other undoes to
//! the last bit.

use std::sync::Arc;

use super::{Fleet, Instance};
use crate::{FleetError, InstanceId, NodeId, Request, Rules};

impl Fleet {
    /// Records that an instance is on a node. It is a fact, so nothing is
    /// checked against what the node has free.
    pub fn reserve(&mut self, request: &Request, node: NodeId) -> Result<(), FleetError> {
        self.nodes.find(node)?;
        if self.instances.place(request.instance).is_some() {
            return Err(FleetError::InstanceExists(request.instance));
        }
        let rules = self.compile(&request.rules);
        self.commit(request, rules, node.slot());
        Ok(())
    }

    /// Records that an instance is gone. Answers where it was.
    pub fn release(&mut self, instance: InstanceId) -> Result<NodeId, FleetError> {
        let missing = FleetError::NoSuchInstance(instance);
        let (place, gone) = self.instances.remove(instance).ok_or(missing)?;
        let node = gone.node as usize;
        self.compiled_rules.leave(gone.rules, node, &self.nodes);
        let Some(slot) = self.nodes.get_mut(node) else {
            return Ok(NodeId(gone.node));
        };
        slot.instances.swap_remove(gone.at as usize);
        if let Some(&moved) = slot.instances.get(gone.at as usize)
            && let Some(moved) = self.instances.get_mut(moved)
        {
            moved.at = gone.at;
        }
        slot.subtract(&gone.resources, gone.epoch);
        if gone.gpu_kind.is_some() || gone.has_ports {
            self.return_extras(place, &gone);
        }
        self.refile(node);
        Ok(NodeId(gone.node))
    }

    /// Takes GPUs and ports back from an instance that is gone.
    fn return_extras(&mut self, place: u32, gone: &Instance) {
        let node = gone.node as usize;
        let rules = self.compiled_rules.rules(gone.rules);
        let Some(slot) = self.nodes.get_mut(node) else {
            return;
        };
        if let (Some(kind), Some(demand)) = (gone.gpu_kind, &rules.gpus) {
            slot.return_gpus(usize::from(kind), demand.count);
        }
        slot.ports.retain(|(_, holder)| *holder != Some(place));
        for &port in &rules.ports {
            if slot.holder(port).is_none() {
                self.ports.free(port, node);
            }
        }
    }

    /// The request of an instance that is placed.
    #[must_use]
    pub fn request_of(&self, instance: InstanceId) -> Option<Request> {
        let placed = self.instances.get(self.instances.place(instance)?)?;
        Some(Request {
            instance,
            resources: placed.resources,
            priority: placed.priority,
            preempts: placed.preempts,
            rules: Arc::clone(self.compiled_rules.rules(placed.rules)),
        })
    }

    /// The compiled rules, with all that follows from them up to date.
    pub(crate) fn compile(&mut self, rules: &Arc<Rules>) -> u32 {
        let id = match self.compiled_rules.find(rules) {
            Some(id) => id,
            None => self.compiled_rules.add(rules, &self.instances),
        };
        self.compiled_rules.refresh(id, &self.nodes);
        id
    }

    /// Puts an instance that is nowhere on a node that exists.
    pub(crate) fn commit(&mut self, request: &Request, rules: u32, node: usize) {
        let resources = request.resources.clamped();
        let Some(slot) = self.nodes.get_mut(node) else {
            return;
        };
        let demand = request.rules.gpus.as_ref();
        let gpu_kind = demand.and_then(|demand| {
            let kind = slot.gpu_for(demand)?;
            slot.use_gpus(kind, demand.count);
            u8::try_from(kind).ok()
        });
        slot.add(&resources);
        let place = self.instances.insert(Instance {
            id: request.instance,
            resources,
            node: node as u32,
            at: slot.instances.len() as u32,
            rules,
            priority: request.priority,
            epoch: slot.epoch,
            gpu_kind,
            preempts: request.preempts,
            has_ports: !request.rules.ports.is_empty(),
        });
        slot.instances.push(place);
        for &port in &request.rules.ports {
            slot.ports.push((port, Some(place)));
            self.ports.take(port, node);
        }
        self.compiled_rules.join(rules, node, &self.nodes);
        self.refile(node);
    }

    /// Restores an instance that was released a moment ago, as it was: part of
    /// the same measurement, with the same GPUs.
    pub(crate) fn restore_eviction(&mut self, request: &Request, was: &Instance) {
        let node = was.node as usize;
        self.commit(request, was.rules, node);
        let place = self.instances.place(was.id);
        let instance = place.and_then(|place| self.instances.get_mut(place));
        let (Some(instance), Some(slot)) = (instance, self.nodes.get_mut(node)) else {
            return;
        };
        slot.subtract(&was.resources, instance.epoch);
        slot.restore(&was.resources, was.epoch);
        instance.epoch = was.epoch;
        if let Some(demand) = &request.rules.gpus {
            if let Some(kind) = instance.gpu_kind {
                slot.return_gpus(usize::from(kind), demand.count);
            }
            if let Some(kind) = was.gpu_kind {
                slot.use_gpus(usize::from(kind), demand.count);
            }
            instance.gpu_kind = was.gpu_kind;
        }
        self.refile(node);
    }

    pub(crate) fn set_preempts(&mut self, instance: InstanceId, preempts: bool) {
        let place = self.instances.place(instance);
        if let Some(instance) = place.and_then(|place| self.instances.get_mut(place)) {
            instance.preempts = preempts;
        }
    }
}
