//! Room for a request of high priority, taken from instances of lower.
//!
//! Only when nothing fits and the request allows it. On every node that could
//! do, the victims are as few and as unimportant as can be: all instances of
//! lower priority are taken away in thought, then given back from the most
//! important and largest down, as long as the request still fits. The node is
//! taken whose most important victim matters least, then with the fewest
//! victims, then with the least that is thrown out.
//!
//! Victims free what they hold: cpu, memory, disk, GPUs, ports. Nobody is
//! stopped because of affinity or spread, but both must hold afterwards.

use std::cmp::Reverse;

use crate::fleet::{Fleet, Instance, Slot};
use crate::judge::Judge;
use crate::{Eviction, InstanceId, NodeId, Request, Score};

/// How many nodes are tried in earnest, the cheapest first.
const TRIES: usize = 64;

/// Who would have to go from a node.
struct Offer {
    node: usize,
    victims: Vec<Instance>,
}

impl Offer {
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

/// Makes room for a request. Answers the node, and who was released for it.
pub(crate) fn preempt(
    fleet: &mut Fleet,
    request: &Request,
    rules: u32,
) -> Option<(usize, Score, Vec<Eviction>)> {
    let mut offers = offers(fleet, request, rules);
    offers.sort_by_cached_key(Offer::cost);
    offers
        .into_iter()
        .take(TRIES)
        .find_map(|offer| accept(fleet, request, rules, &offer))
}

fn offers(fleet: &Fleet, request: &Request, rules: u32) -> Vec<Offer> {
    let Some(compiled) = fleet.rulebook.get(rules) else {
        return Vec::new();
    };
    let nodes = fleet
        .grid
        .nodes()
        .filter(|&node| compiled.eligible.has(node));
    nodes
        .filter_map(|node| {
            let victims = victims(fleet, node, request)?;
            Some(Offer { node, victims })
        })
        .collect()
}

/// The least who must go from a node, or `None` if all of lower priority are
/// not enough.
fn victims(fleet: &Fleet, node: usize, request: &Request) -> Option<Vec<Instance>> {
    let slot = fleet.nodes.get(node)?;
    let left = fleet.left_of_host(node);
    // What goes from here is left of the host, too.
    let fits = |thought: &Slot| {
        let left = left.map(|mut left| {
            left.add(&slot.reserved.minus(&thought.reserved));
            left
        });
        left.is_none_or(|left| request.resources.clamped().fits_in(&left)) && fits(thought, request)
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
    let mut thought = slot.clone();
    for (place, instance) in &lower {
        take_off(fleet, &mut thought, *place, instance);
    }
    if !fits(&thought) {
        return None;
    }
    let mut victims = Vec::new();
    for (place, instance) in lower {
        let without = thought.clone();
        give_back(fleet, &mut thought, place, &instance);
        if !fits(&thought) {
            thought = without;
            victims.push(instance);
        }
    }
    Some(victims)
}

fn take_off(fleet: &Fleet, slot: &mut Slot, place: u32, instance: &Instance) {
    slot.subtract(&instance.resources, instance.epoch);
    slot.ports.retain(|(_, holder)| *holder != Some(place));
    let demand = fleet.rulebook.rules(instance.rules).gpus.as_ref();
    if let (Some(kind), Some(demand)) = (instance.gpu_kind, demand) {
        slot.return_gpus(usize::from(kind), demand.count);
    }
}

fn give_back(fleet: &Fleet, slot: &mut Slot, place: u32, instance: &Instance) {
    slot.restore(&instance.resources, instance.epoch);
    let rules = fleet.rulebook.rules(instance.rules);
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

/// Releases the victims and looks whether everything holds; puts them back if
/// it does not.
fn accept(
    fleet: &mut Fleet,
    request: &Request,
    rules: u32,
    offer: &Offer,
) -> Option<(usize, Score, Vec<Eviction>)> {
    let ids: Vec<InstanceId> = offer.victims.iter().map(|victim| victim.id).collect();
    let requests: Vec<_> = ids.iter().filter_map(|&id| fleet.request_of(id)).collect();
    for &id in &ids {
        fleet.release(id).ok()?;
    }
    let compiled = fleet.rulebook.get(rules)?;
    let slot = fleet.nodes.get(offer.node)?;
    let judge = Judge {
        fleet,
        compiled,
        request,
    };
    let Ok(score) = judge.judge(offer.node, slot) else {
        for (request, victim) in requests.iter().zip(&offer.victims) {
            fleet.put_back(request, victim);
        }
        return None;
    };
    let node = NodeId(offer.node as u32);
    let evictions = offer.victims.iter().map(|victim| Eviction {
        instance: victim.id,
        node,
        priority: victim.priority,
        by: request.instance,
    });
    Some((offer.node, score, evictions.collect()))
}
