//! What has to end on a node before another instance starts there, so that no
//! memory is promised twice: an instance that was evicted, or moves, uses what
//! it has until its last process has ended, and that may take its whole grace
//! period.

use std::collections::BTreeSet;

use strata_scheduler::Resources;
use strata_types::instance::InstanceId;

use super::fleet::resources;
use crate::core::{AwaitedEviction, Core, Instance};

/// Those that an instance has to wait for on a node: all that are evicted for
/// it, and where it does not fit beside what still ends there, that too.
pub(super) fn makes_room(
    core: &Core,
    node: &str,
    newcomer: &Instance,
    evicted: &BTreeSet<InstanceId>,
    also_evicted: &BTreeSet<InstanceId>,
) -> Vec<AwaitedEviction> {
    let Ok(record) = core.node(node) else {
        return Vec::new();
    };
    let overcommit = u128::from(core.settings().overcommit.memory);
    let capacity = u128::from(record.memory) * overcommit / 1000;
    let tables = core.tables();
    let on = tables.on_node.get(node).into_iter().flatten();
    let leaving = tables.leaving.get(node).into_iter().flatten();
    let there: BTreeSet<&InstanceId> = on.chain(leaving).collect();
    let there = there
        .into_iter()
        .filter(|id| **id != newcomer.id)
        .filter_map(|id| tables.instances.get(id));
    let occupants = there.filter_map(|one| {
        let epoch = occupied_by(one, node)?;
        let ends = one.node.as_deref() != Some(node)
            || evicted.contains(&one.id)
            || also_evicted.contains(&one.id);
        Some(Occupant {
            preemption_wait: AwaitedEviction {
                instance: one.id.clone(),
                epoch,
            },
            memory: memory(one),
            evicted: evicted.contains(&one.id),
            ends,
        })
    });
    choose(capacity, memory(newcomer), &occupants.collect::<Vec<_>>())
}

/// The placement by which an instance is on a node.
fn occupied_by(one: &Instance, node: &str) -> Option<u64> {
    let leaving = one.leaves(node).map(|from| from.epoch);
    let epoch = leaving.unwrap_or(one.epoch);
    one.occupies(node, epoch).then_some(epoch)
}

fn memory(one: &Instance) -> u128 {
    let Resources { memory, .. } = resources(&one.spec);
    memory.into()
}

/// An instance that runs on the node now.
#[derive(Debug)]
struct Occupant {
    preemption_wait: AwaitedEviction,
    memory: u128,
    /// For this very newcomer.
    evicted: bool,
    /// It ends there, for whatever reason.
    ends: bool,
}

fn choose(capacity: u128, newcomer: u128, occupants: &[Occupant]) -> Vec<AwaitedEviction> {
    let used: u128 = occupants.iter().map(|one| one.memory).sum();
    let fits = used + newcomer <= capacity;
    let waits = |one: &&Occupant| one.evicted || (one.ends && one.memory > 0 && !fits);
    let chosen = occupants.iter().filter(waits);
    chosen.map(|one| one.preemption_wait.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupant(id: &str, memory: u128, evicted: bool, ends: bool) -> Occupant {
        Occupant {
            preemption_wait: AwaitedEviction {
                instance: id.parse().unwrap(),
                epoch: 1,
            },
            memory,
            evicted,
            ends,
        }
    }

    fn chosen(capacity: u128, newcomer: u128, occupants: &[Occupant]) -> Vec<String> {
        let all = choose(capacity, newcomer, occupants).into_iter();
        all.map(|one| one.instance.to_string()).collect()
    }

    #[test]
    fn newcomer_waits_for_what_was_evicted_for_it() {
        let all = [
            occupant("stays", 40, false, false),
            occupant("victim", 0, true, true),
        ];
        assert_eq!(chosen(100, 50, &all), ["victim"], "also for its ports");
    }

    #[test]
    fn instance_waits_for_ending_occupants_only_when_it_does_not_fit() {
        let all = [
            occupant("stays", 40, false, false),
            occupant("ends", 40, false, true),
            occupant("small", 0, false, true),
        ];
        assert_eq!(chosen(100, 20, &all), Vec::<String>::new());
        assert_eq!(chosen(100, 21, &all), ["ends"]);
    }
}
