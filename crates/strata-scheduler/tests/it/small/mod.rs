//! Small fleets of nodes that differ only in size and zone.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use strata_scheduler::{
    Fleet, GIB, InstanceId, NodeId, NodeSpec, Plan, Policy, Request, Resources, Rules, Settings,
};

pub(crate) fn cores(cores: u64) -> Resources {
    Resources::new(cores * 1000, cores * 4 * GIB, 0)
}

/// Nodes n0, n1 and so on of as many cores, in zones a, b, c by turns.
pub(crate) fn fleet(sizes: &[u64], policy: Policy) -> Fleet {
    let mut fleet = Fleet::new(Settings { policy, seed: 3 });
    for (number, &size) in sizes.iter().enumerate() {
        let zone = ["a", "b", "c"][number % 3];
        let spec = NodeSpec::new(format!("n{number}"), cores(size)).label("zone", zone);
        fleet.add_node(spec).unwrap();
    }
    fleet
}

pub(crate) fn web() -> Rules {
    Rules {
        labels: [("app".to_owned(), "web".to_owned())].into(),
        ..Rules::default()
    }
}

pub(crate) fn requests(from: u128, count: u128, size: u64, rules: Rules) -> Vec<Request> {
    let rules = Arc::new(rules);
    (from..from + count)
        .map(|id| Request::new(InstanceId(id), cores(size), Arc::clone(&rules)))
        .collect()
}

pub(crate) fn names(fleet: &Fleet, plan: &Plan) -> Vec<String> {
    let name = |node: NodeId| fleet.spec(node).unwrap().name.clone();
    plan.placements
        .iter()
        .map(|placed| name(placed.node))
        .collect()
}

pub(crate) fn id(fleet: &Fleet, name: &str) -> NodeId {
    fleet.node(name).unwrap()
}
