//! Preemption, drains, and the reasons that are given, one small fleet each.

use crate::fixtures::{cores, fleet, id, names, requests, web};
use strata_scheduler::{
    Cause, Domain, InstanceId, NodeState, Policy, Reason, Rules, Selector, Spread, drain, explain,
    place,
};

#[test]
fn preemption_takes_the_fewest_and_least_important() {
    let mut fleet = fleet(&[8, 8], Policy::BinPack);
    for (id, size, priority, node) in [
        (0, 4, 1, "n0"),
        (1, 4, 2, "n0"),
        (2, 2, 1, "n1"),
        (3, 2, 1, "n1"),
        (4, 4, 9, "n1"),
    ] {
        let mut request = requests(id, 1, size, Rules::default()).remove(0);
        request.priority = priority;
        let node = fleet.node(node).unwrap();
        fleet.reserve(&request, node).unwrap();
    }
    let mut important = requests(10, 1, 4, Rules::default());
    important[0].priority = 5;
    assert_eq!(
        place(&mut fleet.clone(), &important).evictions,
        [],
        "it was not asked for"
    );
    important[0].preempts = true;
    let plan = place(&mut fleet, &important);
    assert_eq!(names(&fleet, &plan), ["n0"]);
    assert_eq!(plan.placements[0].after, [InstanceId(0)]);
    assert_eq!(fleet.place_of(InstanceId(0)), None);
    // Equal priority is no reason to stop an instance.
    important[0].instance = InstanceId(11);
    important[0].priority = 1;
    assert_eq!(place(&mut fleet, &important).evictions, []);
}

#[test]
fn drain_reschedules_all_instances_and_keeps_the_spread() {
    let mut fleet = fleet(&[8; 4], Policy::BinPack);
    let spread = Spread {
        over: Domain::Node,
        of: Selector::label("app", "web"),
        weight: 1,
        max_skew: None,
    };
    place(
        &mut fleet,
        &requests(
            0,
            3,
            1,
            Rules {
                spreads: vec![spread],
                ..web()
            },
        ),
    );
    let node = id(&fleet, "n0");
    let plan = drain(&mut fleet, node).unwrap();
    assert_eq!(names(&fleet, &plan), ["n3"]);
    assert_eq!(plan.placements[0].from, Some(node));
    assert_eq!(fleet.instances_on(node), Ok(vec![]));
    assert_eq!(fleet.state(node), Ok(NodeState::Draining));
    let next = place(&mut fleet, &requests(9, 1, 8, Rules::default()));
    assert_eq!(next.placements.len(), 0, "a draining node takes nothing");
    fleet.set_state(node, NodeState::Ready).unwrap();
    assert_eq!(
        names(
            &fleet,
            &place(&mut fleet.clone(), &requests(9, 1, 8, Rules::default()))
        ),
        ["n0"]
    );
}

#[test]
fn drain_keeps_unschedulable_instances_with_a_reason() {
    let mut fleet = fleet(&[8, 2], Policy::BinPack);
    let node = id(&fleet, "n0");
    for request in requests(0, 2, 4, Rules::default()) {
        fleet.reserve(&request, node).unwrap();
    }
    let plan = drain(&mut fleet, node).unwrap();
    assert_eq!(plan.failures.len(), 2);
    assert_eq!(fleet.instances_on(node).unwrap().len(), 2);
    assert_eq!(fleet.reserved(node).unwrap(), cores(8));
}

#[test]
fn explanation_names_a_reason_for_every_node() {
    let mut fleet = fleet(&[8, 2, 16, 8, 8], Policy::BinPack);
    fleet.set_state(id(&fleet, "n3"), NodeState::Lost).unwrap();
    let batch = requests(0, 1, 4, Rules::default());
    place(&mut fleet, &batch);
    let explained = explain(&fleet, &batch[0]);
    assert_eq!(explained.current, Some(id(&fleet, "n0")));
    assert_eq!(explained.chosen.map(|(node, _)| node), explained.current);
    let told: Vec<String> = explained
        .others
        .iter()
        .map(|(node, reason)| format!("{}: {reason}", fleet.spec(*node).unwrap().name))
        .collect();
    assert_eq!(
        told,
        [
            "n1: cpu short by 2.000",
            "n2: its free room suits the policy less",
            "n3: lost",
            "n4: as good as the chosen node, which comes first",
        ]
    );
}

#[test]
fn failure_summarizes_reasons_with_the_nearest_node_first() {
    let mut fleet = fleet(&[1, 3, 2], Policy::BinPack);
    let plan = place(&mut fleet, &requests(0, 1, 4, Rules::default()));
    let Cause::NoNodeFits(reasons) = &plan.failures[0].cause else {
        panic!()
    };
    assert_eq!(reasons.len(), 1);
    assert_eq!(reasons[0].nodes, 3);
    assert_eq!(reasons[0].examples[0], "n1");
    assert_eq!(
        reasons[0].reason,
        Reason::Cpu {
            short: 1000,
            measured: false
        }
    );
}
