//! What people expect of a placement, one small fleet each.

use crate::fixtures::{cores, fleet, id, names, requests, web};
use strata_scheduler::{
    Affinity, AffinityMode, Cause, Constraint, Domain, Fleet, FleetError, GIB, GpuDemand, Gpus,
    HostPort, InstanceId, NodeSpec, Overcommit, Policy, Preference, Reason, Resources, Rules,
    Selector, Spread, place,
};

#[test]
fn bin_pack_takes_the_tightest_fitting_node() {
    let mut fleet = fleet(&[32, 2, 8, 4], Policy::BinPack);
    let plan = place(&mut fleet, &requests(0, 4, 3, Rules::default()));
    assert_eq!(names(&fleet, &plan), ["n3", "n2", "n2", "n0"]);
}

#[test]
fn spread_policy_uses_all_nodes_evenly() {
    let mut fleet = fleet(&[16; 8], Policy::Spread);
    place(&mut fleet, &requests(0, 64, 1, Rules::default()));
    for node in fleet.nodes().collect::<Vec<_>>() {
        let used = fleet.reserved(node).unwrap().cpu;
        assert!((6000..=10_000).contains(&used), "{used}");
    }
}

#[test]
fn batch_places_higher_priority_first() {
    let mut fleet = fleet(&[4], Policy::BinPack);
    let mut batch = requests(0, 2, 3, Rules::default());
    batch[1].priority = 5;
    let plan = place(&mut fleet, &batch);
    assert_eq!(plan.placements[0].request, 1);
    assert_eq!(plan.failures[0].request, 0);
}

#[test]
fn overcommit_is_bounded_by_its_configuration() {
    let mut fleet = Fleet::default();
    let mut spec = NodeSpec::new("n", cores(4));
    spec.overcommit = Overcommit {
        cpu: 2000,
        memory: 2000,
        disk: 1000,
    };
    fleet.add_node(spec).unwrap();
    let plan = place(&mut fleet, &requests(0, 9, 1, Rules::default()));
    assert_eq!((plan.placements.len(), plan.failures.len()), (8, 1));
}

#[test]
fn measured_use_above_reservation_reduces_free_resources() {
    let mut fleet = fleet(&[8], Policy::BinPack);
    let node = id(&fleet, "n0");
    place(&mut fleet, &requests(0, 1, 2, Rules::default()));
    fleet.measure(node, Resources::new(5000, GIB, 0)).unwrap();
    // 8 cores less 5 measured and a tenth of that.
    assert_eq!(fleet.free(node).unwrap().cpu, 2500);
    let plan = place(&mut fleet, &requests(1, 1, 3, Rules::default()));
    let Cause::NoNodeFits(reasons) = &plan.failures[0].cause else {
        panic!()
    };
    assert_eq!(
        reasons[0].reason,
        Reason::Cpu {
            short: 500,
            measured: true
        }
    );
    // What came after the measurement is not in it and counts on top.
    place(&mut fleet, &requests(2, 1, 2, Rules::default()));
    assert_eq!(fleet.free(node).unwrap().cpu, 500);
    // Used less than reserved: reservations count.
    fleet.measure(node, Resources::new(100, GIB, 0)).unwrap();
    assert_eq!(fleet.free(node).unwrap().cpu, 4000);
}

#[test]
fn host_port_is_reserved_once_per_node_and_protocol() {
    let mut fleet = fleet(&[8, 8], Policy::BinPack);
    let rules = |port| Rules {
        ports: vec![port],
        ..Rules::default()
    };
    let plan = place(&mut fleet, &requests(0, 3, 1, rules(HostPort::tcp(80))));
    assert_eq!(names(&fleet, &plan), ["n0", "n1"]);
    let Cause::NoNodeFits(reasons) = &plan.failures[0].cause else {
        panic!()
    };
    assert_eq!(reasons[0].nodes, 2);
    assert!(
        reasons[0]
            .reason
            .to_string()
            .contains("port 80/tcp taken by instance")
    );
    let udp = place(&mut fleet, &requests(9, 1, 1, rules(HostPort::udp(80))));
    assert_eq!(udp.placements.len(), 1);
    fleet.release(InstanceId(0)).unwrap();
    let again = place(&mut fleet, &requests(20, 1, 1, rules(HostPort::tcp(80))));
    assert_eq!(names(&fleet, &again), ["n0"]);
}

#[test]
fn constraint_is_hard_and_preference_beats_packing() {
    let mut fleet = fleet(&[8, 16, 32], Policy::BinPack);
    let hard = Constraint::Is("zone".into(), "b".into());
    let rules = Rules {
        constraints: vec![hard],
        ..Rules::default()
    };
    let plan = place(&mut fleet, &requests(0, 1, 1, rules));
    assert_eq!(names(&fleet, &plan), ["n1"]);
    let wish = Preference {
        test: Constraint::Is("zone".into(), "c".into()),
        weight: 10,
    };
    let rules = Rules {
        preferences: vec![wish],
        ..Rules::default()
    };
    let plan = place(&mut fleet, &requests(1, 1, 1, rules));
    assert_eq!(names(&fleet, &plan), ["n2"]);
    assert_eq!(plan.placements[0].score.preference, 10);
}

#[test]
fn instances_spread_over_zones_then_nodes() {
    let mut fleet = fleet(&[16; 6], Policy::BinPack);
    let over = |over, weight| Spread {
        over,
        of: Selector::label("app", "web"),
        weight,
        max_skew: None,
    };
    let spreads = vec![
        over(Domain::Label("zone".into()), 10),
        over(Domain::Node, 1),
    ];
    let plan = place(&mut fleet, &requests(0, 6, 1, Rules { spreads, ..web() }));
    let mut used = names(&fleet, &plan);
    used[..3].sort_unstable();
    assert_eq!(used[..3], ["n0", "n1", "n2"]);
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 6);
}

#[test]
fn hard_spread_leaves_an_instance_unscheduled_rather_than_uneven() {
    let mut fleet = fleet(&[16, 16, 1], Policy::BinPack);
    let spread = Spread {
        over: Domain::Label("zone".into()),
        of: Selector::label("app", "web"),
        weight: 1,
        max_skew: Some(1),
    };
    let rules = Rules {
        spreads: vec![spread],
        ..web()
    };
    let plan = place(&mut fleet, &requests(0, 6, 1, rules));
    // Two in a, two in b, and all that fits in c: a third anywhere is too much.
    assert_eq!(plan.placements.len(), 5);
    let Cause::NoNodeFits(reasons) = &plan.failures[0].cause else {
        panic!()
    };
    assert!(
        reasons
            .iter()
            .any(|count| matches!(count.reason, Reason::Skew { .. }))
    );
}

#[test]
fn affinity_and_anti_affinity_are_respected() {
    let mut fleet = fleet(&[8; 3], Policy::BinPack);
    let mode = |mode| Affinity {
        to: Selector::label("app", "web"),
        within: Domain::Node,
        mode,
    };
    let apart = Rules {
        affinities: vec![mode(AffinityMode::Forbid)],
        ..web()
    };
    let plan = place(&mut fleet, &requests(0, 2, 1, apart));
    assert_eq!(names(&fleet, &plan), ["n0", "n1"]);
    fleet.release(InstanceId(0)).unwrap();
    let close = Rules {
        affinities: vec![mode(AffinityMode::Require)],
        ..Rules::default()
    };
    let plan = place(&mut fleet, &requests(5, 1, 1, close));
    assert_eq!(names(&fleet, &plan), ["n1"]);
}

#[test]
fn gpus_are_counted_by_kind() {
    let mut fleet = fleet(&[8], Policy::BinPack);
    let mut spec = NodeSpec::new("gpu", cores(8));
    spec.gpus = vec![
        Gpus {
            kind: "a100".into(),
            count: 2,
        },
        Gpus {
            kind: "t4".into(),
            count: 1,
        },
    ];
    fleet.add_node(spec).unwrap();
    let gpus = |count, kind: Option<&str>| Rules {
        gpus: Some(GpuDemand {
            count,
            kind: kind.map(str::to_owned),
        }),
        ..Rules::default()
    };
    let plan = place(&mut fleet, &requests(0, 2, 1, gpus(2, Some("a100"))));
    assert_eq!(names(&fleet, &plan), ["gpu"]);
    assert_eq!(plan.failures.len(), 1);
    assert_eq!(
        place(&mut fleet, &requests(5, 2, 1, gpus(1, None)))
            .placements
            .len(),
        1
    );
    fleet.release(InstanceId(0)).unwrap();
    assert_eq!(
        place(&mut fleet, &requests(9, 1, 1, gpus(2, None)))
            .placements
            .len(),
        1
    );
}

#[test]
fn contradictory_rules_are_refused() {
    let mut fleet = fleet(&[8], Policy::BinPack);
    let node = id(&fleet, "n0");
    let request = requests(0, 1, 1, Rules::default()).remove(0);
    fleet.reserve(&request, node).unwrap();
    let exists = FleetError::InstanceExists(InstanceId(0));
    assert_eq!(fleet.reserve(&request, node), Err(exists));
    let again = place(&mut fleet, std::slice::from_ref(&request));
    assert_eq!(again.failures[0].cause, Cause::AlreadyPlaced(node));
    let spec = NodeSpec::new("n0", cores(1));
    assert_eq!(
        fleet.add_node(spec),
        Err(FleetError::NodeExists("n0".into()))
    );
    assert_eq!(fleet.remove_node(node), Ok(vec![InstanceId(0)]));
    assert_eq!(fleet.free(node), Err(FleetError::NoSuchNode(node)));
    assert_eq!(
        fleet.release(InstanceId(0)),
        Err(FleetError::NoSuchInstance(InstanceId(0)))
    );
}

#[test]
fn unused_rules_are_dropped_and_counts_stay_correct() {
    let mut fleet = fleet(&[64; 3], Policy::BinPack);
    let rules = |app: String| Rules {
        labels: [("app".to_owned(), app.clone())].into(),
        spreads: vec![Spread {
            over: Domain::Label("zone".into()),
            of: Selector::label("app", app),
            weight: 1,
            max_skew: Some(1),
        }],
        ..Rules::default()
    };
    let keep = place(&mut fleet, &requests(0, 2, 1, rules("kept".into())));
    assert_eq!(names(&fleet, &keep), ["n0", "n1"]);
    for number in 0..5000 {
        let passing = requests(10, 1, 1, rules(format!("passing {number}")));
        assert_eq!(place(&mut fleet, &passing).placements.len(), 1);
        fleet.release(InstanceId(10)).unwrap();
    }
    let third = place(&mut fleet, &requests(20, 1, 1, rules("kept".into())));
    assert_eq!(names(&fleet, &third), ["n2"]);
}

#[test]
fn resources_of_a_shared_host_are_counted_once() {
    let mut fleet = Fleet::default();
    let host = fleet.add_node(NodeSpec::new("host", cores(2))).unwrap();
    let nested = |name: &str| NodeSpec::new(name, cores(1)).nested_in("host");
    let one = fleet.add_node(nested("one")).unwrap();
    let two = fleet.add_node(nested("two")).unwrap();
    let plan = place(&mut fleet, &requests(0, 4, 1, Rules::default()));
    // Three nodes with four cores on two.
    assert_eq!((plan.placements.len(), plan.failures.len()), (2, 2));
    let Cause::NoNodeFits(reasons) = &plan.failures[0].cause else {
        panic!()
    };
    assert!(
        reasons.iter().any(|one| one.reason == Reason::Host),
        "{reasons:?}"
    );
    for node in [host, one, two] {
        assert_eq!(fleet.free(node).unwrap().cpu, 0);
    }
    // What goes from one is there for all.
    let gone = plan.placements[0].instance;
    fleet.release(gone).unwrap();
    for node in [host, one, two] {
        assert!(fleet.free(node).unwrap().cpu >= 1000 || fleet.reserved(node).unwrap().cpu > 0);
    }
    let plan = place(&mut fleet, &requests(10, 2, 1, Rules::default()));
    assert_eq!((plan.placements.len(), plan.failures.len()), (1, 1));
}

#[test]
fn dedicated_node_takes_its_whole_share_of_the_host() {
    let mut fleet = Fleet::default();
    let host = fleet.add_node(NodeSpec::new("host", cores(2))).unwrap();
    let mut spec = NodeSpec::new("vm", cores(1)).nested_in("host");
    spec.dedicated = true;
    let vm = fleet.add_node(spec.clone()).unwrap();
    let free = |fleet: &Fleet, node| fleet.free(node).unwrap().cpu;
    assert_eq!((free(&fleet, host), free(&fleet, vm)), (1000, 1000));
    let plan = place(&mut fleet, &requests(0, 3, 1, Rules::default()));
    assert_eq!((plan.placements.len(), plan.failures.len()), (2, 1));
    spec.dedicated = false;
    spec.host = None;
    fleet.update_node(vm, spec).unwrap();
    assert_eq!(free(&fleet, host), 1000, "it is on a host of its own now");
    fleet.remove_node(vm).unwrap();
    assert_eq!(free(&fleet, host), 1000);
}
