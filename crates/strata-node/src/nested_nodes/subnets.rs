//! The addresses of what runs inside machines. They are apart from those of
//! the host node: seen from a machine, that is the world outside, to which
//! it hides its pods behind its own address.

use std::collections::HashSet;

use strata_network::Subnet;

/// What to fall back to where the next range belongs to others.
const RANGES: [&str; 3] = ["10.43.0.0/16", "172.30.0.0/16", "192.168.0.0/16"];
/// A machine has so many bits for what is in it.
const PREFIX: u8 = 24;

/// The range of all machines on a node whose own range is `around`: the next
/// one of its size, if that is a private one.
pub(super) fn range(around: Subnet) -> Option<Subnet> {
    let next = u32::from(around.network())
        .checked_add(u32::try_from(around.size()).ok()?)
        .and_then(|network| Subnet::new(network.into(), around.prefix()).ok())
        .filter(|next| is_private(*next) && next.prefix() <= PREFIX);
    let others = RANGES.iter().filter_map(|text| text.parse().ok());
    next.into_iter()
        .chain(others)
        .find(|range| !overlap(*range, around))
}

fn is_private(subnet: Subnet) -> bool {
    let last = subnet.at(u32::try_from(subnet.size() - 1).unwrap_or(u32::MAX));
    subnet.network().is_private() && last.is_private()
}

fn overlap(a: Subnet, b: Subnet) -> bool {
    a.contains(b.network()) || b.contains(a.network())
}

/// One that no other machine has, looked for from a place that `seed`
/// determines: machines on different hosts may come to be in one network.
pub(super) fn choose(range: Subnet, taken: &HashSet<Subnet>, seed: &str) -> Option<Subnet> {
    let count = 1u32.checked_shl(u32::from(PREFIX.checked_sub(range.prefix())?))?;
    let hash = seed
        .bytes()
        .fold(0u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    (0..count)
        .map(|i| hash.wrapping_add(i) % count)
        .filter_map(|i| Subnet::new(range.at(i << (32 - PREFIX)), PREFIX).ok())
        .find(|subnet| !taken.contains(subnet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(around: &str) -> String {
        range(around.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn machines_have_a_range_apart() {
        assert_eq!(next("10.42.0.0/16"), "10.43.0.0/16");
        // A machine in a machine in a machine.
        assert_eq!(next("10.43.0.0/16"), "10.44.0.0/16");
        // The next one belongs to others, or is too small.
        assert_eq!(next("192.168.0.0/16"), "10.43.0.0/16");
        assert_eq!(next("10.0.0.0/8"), "172.30.0.0/16");
        assert_eq!(next("10.43.0.0/26"), "172.30.0.0/16");
    }

    #[test]
    fn each_machine_has_another_subnet_until_none_is_left() {
        let range: Subnet = "10.43.0.0/22".parse().unwrap();
        let mut taken = HashSet::new();
        for i in 0..4 {
            let chosen = choose(range, &taken, &format!("seed {i}")).unwrap();
            assert!(range.contains(chosen.network()) && taken.insert(chosen));
        }
        assert_eq!(choose(range, &taken, "seed"), None);
    }
}
