//! Which nodes can extend the lease of another one while no server is
//! reachable. What a node has goes to none but its witnesses once it is lost, so
//! any set is safe. In a small installation these are all others that can be
//! witnesses and are not lost for long; in a large one its neighbours on a ring
//! of those that can.

use std::collections::BTreeSet;
use std::time::Duration;

use strata_api::strata::v1;
use strata_types::Result;

use crate::core::{Core, Node, NodeCondition, Tables, now_ms};

/// With more of them, a node that reaches no server would query witnesses for
/// too long.
pub(super) const MAX_WITNESSES: usize = 64;
/// How many of its neighbours, on either side of a ring, are the witnesses of a
/// node that has more peers than that.
const ON_EACH_SIDE: usize = 8;

/// A node that has been connected for so many leases is given no witnesses any
/// more that are lost for long. Not before: when an outage ends, those that are
/// not back yet need the promises of those that are, and have two leases to
/// come back as well.
const SETTLED_AFTER_LEASES: u32 = 3;

/// The witnesses of a node that has been connected for so long, with the keys
/// that it shares with each.
pub(super) async fn witnesses(
    core: &Core,
    own: &str,
    connected: Duration,
) -> Result<Option<Vec<v1::Witness>>> {
    let chosen: Vec<_> = {
        let tables = core.tables();
        let Some(names) = choose(&tables, own, lost_before(core, connected)) else {
            return Ok(None);
        };
        let found = names.into_iter().filter_map(|name| tables.nodes.get(name));
        found.cloned().collect()
    };
    let secret = core.witness_secret().await?;
    let witness = |node: &std::sync::Arc<crate::core::Versioned<Node>>| v1::Witness {
        name: node.name.clone(),
        address: node.address.clone(),
        port: node.witness_port.into(),
        key: pair_key(&secret, own, &node.name).to_vec(),
    };
    Ok(Some(chosen.iter().map(witness).collect()))
}

/// Whether a node would be given other witnesses now than these.
pub(super) fn are_outdated(
    core: &Core,
    own: &str,
    connected: Duration,
    given: Option<&BTreeSet<String>>,
) -> bool {
    let tables = core.tables();
    let chosen = choose(&tables, own, lost_before(core, connected));
    let given = given.map(|names| names.iter().map(String::as_str).collect());
    chosen != given
}

/// Nodes that were lost before this time, in Unix milliseconds, are left out.
fn lost_before(core: &Core, connected: Duration) -> i64 {
    let lease = core.settings().lease;
    if connected < lease * SETTLED_AFTER_LEASES {
        return i64::MIN;
    }
    now_ms().saturating_sub(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX))
}

/// The names of a node's witnesses; none where it has no lease that could be
/// extended, or there is no other that could be one.
///
/// A node that was lost a moment ago is among them: it may be back, and take
/// over, before this one is notified. One that has been lost for longer would
/// keep all others from extending their leases, without an end.
fn choose<'a>(tables: &'a Tables, own: &str, lost_before: i64) -> Option<BTreeSet<&'a str>> {
    let itself = tables.nodes.get(own)?;
    if !itself.holds_leases || itself.witness_port == 0 {
        return None;
    }
    let able =
        |node: &Node| node.holds_leases && node.witness_port != 0 && !node.address.is_empty();
    if tables.nodes.len() <= MAX_WITNESSES + 1 {
        let others = tables.nodes.values();
        let others = others.filter(|node| node.name != own && able(node));
        let others: Vec<_> = others.map(|node| &node.record).collect();
        let is_here = |node: &&&Node| {
            node.condition != NodeCondition::Lost || node.changed_at_ms >= lost_before
        };
        let here: BTreeSet<&str> = others
            .iter()
            .filter(is_here)
            .map(|node| node.name.as_str())
            .collect();
        // Without any, what it has could go to no other node at all.
        let known = match here.is_empty() {
            true => others.iter().map(|node| node.name.as_str()).collect(),
            false => here,
        };
        return (!known.is_empty()).then_some(known);
    }
    let counts = |name: &str| tables.nodes.get(name).is_some_and(|node| able(node));
    let known = tables.ring.neighbours(own, ON_EACH_SIDE, counts);
    // Without any, what it has could go to no other node at all.
    (!known.is_empty()).then_some(known)
}

/// The key of two nodes, the same for both.
fn pair_key(secret: &[u8], one: &str, other: &str) -> [u8; 32] {
    let (first, second) = if one < other {
        (one, other)
    } else {
        (other, one)
    };
    let pair = format!("witness {}:{first} {}:{second}", first.len(), second.len());
    strata_identity::hmac_sha256(secret, pair.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Since when a node is ready, or lost.
    const CHANGED_AT: i64 = 1000;

    fn put(tables: &mut Tables, number: usize, port: u16) {
        put_as(tables, number, port, "ready");
    }

    fn put_as(tables: &mut Tables, number: usize, port: u16, condition: &str) {
        let name = format!("n{number}");
        let record = serde_json::json!({
            "name": name, "subnet": format!("10.42.{number}.0/24"), "condition": condition,
            "address": "192.0.2.1", "createdAtMs": 0, "changedAtMs": CHANGED_AT,
            "holdsLeases": true, "witnessPort": port,
        });
        let revision = u64::try_from(number + 1 + condition.len()).unwrap() + u64::from(port);
        let entry = strata_store::Entry {
            key: format!("node/{name}"),
            value: record.to_string().into(),
            created: revision,
            changed: revision,
            lease: None,
        };
        tables.apply(&strata_store::Change::Put(entry)).unwrap();
    }

    fn tables(nodes: usize) -> Tables {
        let mut tables = Tables::default();
        (0..nodes).for_each(|number| put(&mut tables, number, 7));
        tables
    }

    fn chosen<'a>(tables: &'a Tables, own: &str) -> Option<BTreeSet<&'a str>> {
        choose(tables, own, CHANGED_AT)
    }

    #[test]
    fn node_of_a_small_cluster_has_all_others_as_witnesses_that_can_be_one() {
        let mut tables = tables(MAX_WITNESSES + 1);
        assert_eq!(chosen(&tables, "n0").unwrap().len(), MAX_WITNESSES);
        put(&mut tables, 9, 0);
        let known = chosen(&tables, "n0").unwrap();
        assert_eq!(known.len(), MAX_WITNESSES - 1);
        assert!(!known.contains("n9"));
        assert_eq!(chosen(&tables, "n9"), None);
    }

    #[test]
    fn node_that_is_lost_for_long_is_no_witness_while_there_is_another() {
        let mut tables = tables(3);
        put_as(&mut tables, 1, 7, "lost");
        assert_eq!(
            chosen(&tables, "n0").unwrap(),
            ["n1", "n2"].into(),
            "just now"
        );
        fn later(tables: &Tables) -> Option<BTreeSet<&str>> {
            choose(tables, "n0", CHANGED_AT + 1)
        }
        assert_eq!(later(&tables).unwrap(), ["n2"].into());
        put_as(&mut tables, 2, 7, "lost");
        assert_eq!(later(&tables).unwrap(), ["n1", "n2"].into(), "none remains");
        let mut alone = self::tables(2);
        put(&mut alone, 1, 0);
        assert_eq!(chosen(&alone, "n0"), None, "its lease is not extended");
    }

    #[test]
    fn node_of_a_large_cluster_has_sixteen_witnesses_whose_witness_it_is() {
        let mut tables = tables(MAX_WITNESSES + 2);
        // A node that cannot be a witness is the witness of none, and does not
        // keep others from being one.
        put(&mut tables, 9, 0);
        assert_eq!(chosen(&tables, "n9"), None);
        for number in (0..MAX_WITNESSES + 2).filter(|number| *number != 9) {
            let own = format!("n{number}");
            let known = chosen(&tables, &own).unwrap();
            assert_eq!(known.len(), 2 * ON_EACH_SIDE, "{own}");
            assert!(!known.contains("n9") && !known.contains(&*own));
            for other in known {
                assert!(chosen(&tables, other).unwrap().contains(&*own));
            }
        }
    }

    #[test]
    fn large_cluster_without_another_witness_has_none() {
        let mut tables = tables(MAX_WITNESSES + 2);
        (1..MAX_WITNESSES + 2).for_each(|number| put(&mut tables, number, 0));
        assert_eq!(chosen(&tables, "n0"), None);
    }

    #[test]
    fn two_nodes_share_a_key_that_no_third_has() {
        let key = |one, other| pair_key(b"secret", one, other);
        assert_eq!(key("n1", "n2"), key("n2", "n1"));
        assert_ne!(key("n1", "n2"), key("n1", "n3"));
        assert_ne!(key("n1", "n2"), pair_key(b"another", "n1", "n2"));
        assert_ne!(key("a b", "c"), key("a", "b c"));
    }
}
