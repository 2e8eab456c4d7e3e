//! What a node reports of itself is a claim, checked against what is known
//! otherwise: a node that was taken over must not attract instances that it
//! likes, nor block another node.
//!
//! - Labels: a node has those that say what its machine is, and requests
//!   others (`node_labels.rs`), none of them below `strata.dev/`. Below
//!   `node-restriction.strata.dev/` only admins label, no operators either.
//! - Capacity and GPUs: no more than was measured of its machine when that was
//!   brought up, or than the inventory says, or than an admin has set.
//! - Address: not one that another node has. One that its connection comes from
//!   is proven: it goes before what was only reported, and before a node that
//!   is gone.
//! - Addresses of its instances: those of its own subnet.

use std::net::Ipv4Addr;

use strata_types::machine::MachinePhase;

use super::machines::Machine;
use super::node_labels::MEASURED;
use super::record::{Node, NodeCondition};

/// Only admins label below this.
pub(crate) const RESTRICTED: &str = "node-restriction.strata.dev/";
/// Whether a node may report this label of itself at all.
pub(super) fn may_label(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let ours = domain == "strata.dev" || domain.ends_with(".strata.dev");
    !ours || MEASURED.contains(&key)
}

/// Bounds what a node reports by what is known of its machine.
pub(super) fn bound_by_machine(node: &mut Node, machine: &Machine) {
    // Before that it is being measured.
    if machine.phase != MachinePhase::Up {
        return;
    }
    if let Some(cpu) = machine.cpu.or(machine.spec.cpu) {
        node.cpu = node.cpu.min(u64::from(cpu).saturating_mul(1000));
    }
    if let Some(ram) = machine.ram.or(machine.spec.ram) {
        // Megabytes were rounded down.
        let most = ram.saturating_add(1).saturating_mul(1_000_000);
        node.memory = node.memory.min(most);
    }
    bound_gpus(node, machine.gpus);
}

/// Holds it against what an admin has set.
pub(super) fn bound_by_limits(node: &mut Node) {
    let limits = node.limits;
    let most = |now: u64, limit: Option<u32>, unit: u64| {
        limit.map_or(now, |limit| now.min(u64::from(limit).saturating_mul(unit)))
    };
    node.cpu = most(node.cpu, limits.cpu, 1);
    node.memory = most(node.memory, limits.memory, 1_000_000);
    node.disk = most(node.disk, limits.disk, 1_000_000_000);
    if let Some(gpus) = limits.gpus {
        bound_gpus(node, gpus);
    }
    if limits.pool == Some(false) {
        node.pool.clear();
    }
}

fn bound_gpus(node: &mut Node, mut left: u32) {
    for count in node.gpus.values_mut() {
        *count = (*count).min(left);
        left -= *count;
    }
    node.gpus.retain(|_, count| *count > 0);
}

/// The nodes that have to part with an address, so that another has it; none
/// when it may not have it. `proven` is one that its connection comes from.
pub(super) fn conflicting_node<'a>(
    name: &str,
    address: &str,
    proven: bool,
    others: impl Iterator<Item = &'a Node>,
) -> Option<Vec<String>> {
    let have = others.filter(|other| other.name != name && other.address == address);
    let parts = |other: &Node| {
        let gone = other.condition != NodeCondition::Ready;
        (proven && (gone || !other.address_proven)).then(|| other.name.clone())
    };
    have.map(parts).collect()
}

/// Whether an address is of a subnet such as `10.42.7.0/24`.
pub(crate) fn is_within(subnet: &str, address: Ipv4Addr) -> bool {
    let Some((base, bits)) = subnet.split_once('/') else {
        return false;
    };
    let (Ok(base), Ok(bits @ 1..=32)) = (base.parse::<Ipv4Addr>(), bits.parse::<u32>()) else {
        return false;
    };
    let network = |address: Ipv4Addr| address.to_bits() >> (32 - bits);
    network(base) == network(address)
}

/// What else an address of a subnet is, where no instance can have it: the
/// first, the second and the last are the network's own, as on every node.
pub(crate) fn reserved(subnet: &str, address: Ipv4Addr) -> Option<&'static str> {
    let bits: u32 = subnet.split_once('/')?.1.parse().ok()?;
    let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
    match address.to_bits() & hosts {
        0 => Some("network"),
        1 => Some("gateway"),
        host if host == hosts => Some("broadcast"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, address: &str, condition: NodeCondition) -> Node {
        let text = serde_json::json!({
            "name": name, "subnet": "10.42.1.0/24", "condition": condition, "address": address,
            "createdAtMs": 0, "changedAtMs": 0, "cpu": 900_000, "memory": 1_u64 << 44,
            "gpus": { "amd": 2, "nvidia": 9 },
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn node_capacity_is_bounded_by_its_machine() {
        let text = serde_json::json!({
            "id": "m1", "spec": { "provider": "local", "handle": "" }, "phase": "UP",
            "cpu": 4, "ram": 8000, "gpus": 3, "createdAtMs": 0, "changedAtMs": 0,
        });
        let mut machine: Machine = serde_json::from_value(text).unwrap();
        let mut lies = node("m1", "", NodeCondition::Ready);
        bound_by_machine(&mut lies, &machine);
        assert_eq!((lies.cpu, lies.memory), (4000, 8_001_000_000));
        assert_eq!(lies.gpus.values().sum::<u32>(), 3);
        machine.phase = MachinePhase::Verifying;
        let mut measured = node("m1", "", NodeCondition::Ready);
        bound_by_machine(&mut measured, &machine);
        assert_eq!(measured.cpu, 900_000);
    }

    #[test]
    fn node_capacity_is_bounded_by_admin_limits() {
        let mut lies = node("n1", "", NodeCondition::Ready);
        lies.pool = "p1".into();
        let free = lies.clone();
        bound_by_limits(&mut lies);
        assert_eq!(lies, free, "nothing is set");
        lies.limits = serde_json::from_value(serde_json::json!({
            "cpu": 2000, "memory": 4000, "disk": 0, "gpus": 1, "pool": false,
        }))
        .unwrap();
        bound_by_limits(&mut lies);
        assert_eq!((lies.cpu, lies.memory, lies.disk), (2000, 4_000_000_000, 0));
        assert_eq!(lies.gpus.values().sum::<u32>(), 1);
        assert_eq!(lies.pool, "");
    }

    #[test]
    fn node_address_is_unique() {
        let (ready, lost) = (NodeCondition::Ready, NodeCondition::Lost);
        let parts = |proven, condition, holder_proven| {
            let mut holder = node("a", "192.0.2.1", condition);
            holder.address_proven = holder_proven;
            conflicting_node("b", "192.0.2.1", proven, [holder].iter())
        };
        for holder_proven in [true, false] {
            assert_eq!(parts(false, ready, holder_proven), None);
            assert_eq!(parts(false, lost, holder_proven), None);
        }
        assert_eq!(parts(true, ready, true), None);
        let a = || Some(vec!["a".to_owned()]);
        assert_eq!(parts(true, ready, false), a());
        assert_eq!(parts(true, lost, true), a());
        let own = [node("b", "192.0.2.1", ready)];
        for free in ["192.0.2.1", "192.0.2.2"] {
            let parts = conflicting_node("b", free, false, own.iter());
            assert_eq!(parts, Some(vec![]));
        }
    }

    #[test]
    fn instance_address_is_within_the_node_subnet() {
        let within = |address: &str| is_within("10.42.7.0/24", address.parse().unwrap());
        assert!(within("10.42.7.1") && within("10.42.7.255"));
        assert!(!within("10.42.8.1") && !within("192.0.2.1"));
        assert!(!is_within("nonsense", Ipv4Addr::LOCALHOST));
        assert!(!is_within("10.0.0.0/0", Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn first_second_and_last_address_of_a_subnet_are_reserved() {
        for (address, what) in [
            ("10.42.7.0", Some("network")),
            ("10.42.7.1", Some("gateway")),
            ("10.42.7.2", None),
            ("10.42.7.254", None),
            ("10.42.7.255", Some("broadcast")),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(reserved("10.42.7.0/24", address), what, "{address}");
        }
        let inner = Ipv4Addr::new(10, 42, 7, 255);
        assert_eq!(reserved("10.42.0.0/16", inner), None);
    }
}
