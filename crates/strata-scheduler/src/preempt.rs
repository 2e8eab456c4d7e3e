//! Room for a request of high priority, taken from instances of lower.
//!
//! Only when nothing fits and the request allows it. On every node that could
//! do, the victims are as few and as unimportant as can be: all instances of
//! lower priority are taken away in thought, then released from the most
//! important and largest down, as long as the request still fits. The node is
//! taken whose most important victim matters least, then with the fewest
//! victims, then with the least that is thrown out.
//!
//! Victims free what they hold: cpu, memory, disk, GPUs, ports. No instance is
//! stopped because of affinity or spread, but both must hold afterwards.

use std::cmp::Reverse;

use crate::feasibility::Feasibility;
use crate::fleet::{Fleet, Instance, Slot};
use crate::{Eviction, InstanceId, NodeId, Request, Score};

/// How many nodes are tried in earnest, the cheapest first.
const MAX_CANDIDATES: usize = 64;

/// The instances that would have to go from a node.
struct PreemptionCandidate {
    node: usize,
    victims: Vec<Instance>,
}

impl PreemptionCandidate {
    fn cost(&self) -> (i32, usize, i64, u64, usize) {
        let most = self.victims.iter().map(|victim| victim.priority).max();
        let sum = self
            .victims
            .iter()
            .map(|victim| i64::from(victim.priority))
            .sum();
        let thrown = self
            .victims
            .iter()
            .map(|victim| victim.resources.memory)
            .sum();
        let most = most.unwrap_or(i32::MIN);
        (most, self.victims.len(), sum, thrown, self.node)
    }
}

/// Makes room for a request. Answers the node, and the instances that were
/// released for it.
pub(crate) fn preempt(
    fleet: &mut Fleet,
    request: &Request,
    rules: u32,
) -> Option<(usize, Score, Vec<Eviction>)> {
    let mut candidates = candidates(fleet, request, rules);
    candidates.sort_by_cached_key(PreemptionCandidate::cost);
    candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .find_map(|candidate| accept(fleet, request, rules, &candidate))
}

fn candidates(fleet: &Fleet, request: &Request, rules: u32) -> Vec<PreemptionCandidate> {
    let Some(compiled) = fleet.compiled_rules.get(rules) else {
        return Vec::new();
    };
    let nodes = fleet
        .grid
        .nodes()
        .filter(|&node| compiled.eligible.has(node));
    nodes
        .filter_map(|node| {
            let victims = victims(fleet, node, request)?;
            Some(PreemptionCandidate { node, victims })
        })
        .collect()
}

/// The fewest instances that must go from a node, or `None` if all of lower
/// priority are not enough.
fn victims(fleet: &Fleet, node: usize, request: &Request) -> Option<Vec<Instance>> {
    let slot = fleet.nodes.get(node)?;
    let left = fleet.left_of_host(node);
    // What goes from here is left of the host, too.
    let fits = |hypothetical: &Slot| {
        let left = left.map(|mut left| {
            left.add(&slot.reserved.minus(&hypothetical.reserved));
            left
        });
        left.is_none_or(|left| request.resources.clamped().fits_in(&left))
            && fits(hypothetical, request)
    };
    let places = slot.instances.iter();
    let all = places.filter_map(|&place| Some((place, *fleet.instances.get(place)?)));
    let mut lower: Vec<(u32, Instance)> = all
        .filter(|(_, instance)| instance.priority < request.priority)
        .collect();
    if lower.is_empty() {
        return None;
    }
    lower.sort_by_key(|(_, instance)| {
        let size = instance.resources;
        (
            Reverse(instance.priority),
            Reverse(size.memory),
            Reverse(size.cpu),
            instance.id,
        )
    });
    let mut hypothetical = slot.clone();
    for (place, instance) in &lower {
        subtract_instance(fleet, &mut hypothetical, *place, instance);
    }
    if !fits(&hypothetical) {
        return None;
    }
    let mut victims = Vec::new();
    for (place, instance) in lower {
        let without = hypothetical.clone();
        restore_instance(fleet, &mut hypothetical, place, &instance);
        if !fits(&hypothetical) {
            hypothetical = without;
            victims.push(instance);
        }
    }
    Some(victims)
}

fn subtract_instance(fleet: &Fleet, slot: &mut Slot, place: u32, instance: &Instance) {
    slot.subtract(&instance.resources, instance.epoch);
    slot.ports.retain(|(_, holder)| *holder != Some(place));
    let demand = fleet.compiled_rules.rules(instance.rules).gpus.as_ref();
    if let (Some(kind), Some(demand)) = (instance.gpu_kind, demand) {
        slot.return_gpus(usize::from(kind), demand.count);
    }
}

fn restore_instance(fleet: &Fleet, slot: &mut Slot, place: u32, instance: &Instance) {
    slot.restore(&instance.resources, instance.epoch);
    let rules = fleet.compiled_rules.rules(instance.rules);
    slot.ports
        .extend(rules.ports.iter().map(|port| (*port, Some(place))));
    if let (Some(kind), Some(demand)) = (instance.gpu_kind, &rules.gpus) {
        slot.use_gpus(usize::from(kind), demand.count);
    }
}

fn fits(slot: &Slot, request: &Request) -> bool {
    let rules = &request.rules;
    request.resources.clamped().fits_in(&slot.free())
        && rules
            .gpus
            .as_ref()
            .is_none_or(|demand| slot.gpu_for(demand).is_some())
        && rules.ports.iter().all(|&port| slot.holder(port).is_none())
}

/// Releases the victims and checks whether everything holds; restores them if
/// it does not.
fn accept(
    fleet: &mut Fleet,
    request: &Request,
    rules: u32,
    candidate: &PreemptionCandidate,
) -> Option<(usize, Score, Vec<Eviction>)> {
    let ids: Vec<InstanceId> = candidate.victims.iter().map(|victim| victim.id).collect();
    let requests: Vec<_> = ids.iter().filter_map(|&id| fleet.request_of(id)).collect();
    for &id in &ids {
        fleet.release(id).ok()?;
    }
    let compiled = fleet.compiled_rules.get(rules)?;
    let slot = fleet.nodes.get(candidate.node)?;
    let feasibility = Feasibility {
        fleet,
        compiled,
        request,
    };
    let Ok(score) = feasibility.check(candidate.node, slot) else {
        for (request, victim) in requests.iter().zip(&candidate.victims) {
            fleet.restore_eviction(request, victim);
        }
        return None;
    };
    let node = NodeId(candidate.node as u32);
    let evictions = candidate.victims.iter().map(|victim| Eviction {
        instance: victim.id,
        node,
        priority: victim.priority,
        by: request.instance,
    });
    Some((candidate.node, score, evictions.collect()))
}
