//! Nodes, rules and requests drawn at random, small enough that they collide.

use proptest::prelude::*;
use strata_scheduler::{
    Affinity, AffinityMode, Constraint, Domain, GIB, GpuDemand, Gpus, HostPort, Kind, MIB,
    NodeSpec, Overcommit, Policy, Preference, Resources, Rules, Selector, Spread,
};

/// Mostly none, at times up to `most`.
pub(crate) fn some<S>(of: S, most: usize) -> impl Strategy<Value = Vec<S::Value>>
where
    S: Strategy + Clone + 'static,
    S::Value: Clone + 'static,
{
    prop_oneof![
        2 => Just(Vec::new()),
        1 => proptest::collection::vec(of, 0..=most),
    ]
}

pub(crate) fn zone() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("c".to_owned())
    ]
}

pub(crate) fn labels() -> impl Strategy<Value = Vec<(String, String)>> {
    (proptest::option::weighted(0.8, zone()), proptest::bool::ANY).prop_map(|(zone, fast)| {
        let zone = zone.map(|zone| ("zone".to_owned(), zone));
        let fast = fast.then(|| ("disk".to_owned(), "nvme".to_owned()));
        zone.into_iter().chain(fast).collect()
    })
}

pub(crate) fn node(name: String) -> impl Strategy<Value = NodeSpec> {
    let gpus = some((prop_oneof![Just("a100"), Just("t4")], 1..4_u32), 1);
    let ratio = prop_oneof![3 => Just(1000_u32), 1 => 500..2500_u32];
    let sizes = (1..9_u64, 1..17_u64, 0..5_u64);
    (sizes, labels(), gpus, ratio, some(port(), 1), any::<bool>()).prop_map(
        move |((cpu, memory, disk), labels, gpus, ratio, ports, vms)| NodeSpec {
            labels: labels.into_iter().collect(),
            gpus: gpus
                .into_iter()
                .map(|(kind, count)| Gpus {
                    kind: kind.to_owned(),
                    count,
                })
                .collect(),
            runs: if vms {
                vec![Kind::Container, Kind::Vm]
            } else {
                vec![Kind::Container]
            },
            overcommit: Overcommit {
                cpu: ratio,
                memory: 1000,
                disk: 1000,
            },
            ports,
            ..NodeSpec::new(
                name.clone(),
                Resources::new(cpu * 500, memory * GIB / 2, disk * GIB),
            )
        },
    )
}

pub(crate) fn port() -> impl Strategy<Value = HostPort> + Clone {
    prop_oneof![
        Just(HostPort::tcp(80)),
        Just(HostPort::udp(53)),
        Just(HostPort::tcp(443))
    ]
}

pub(crate) fn constraint() -> impl Strategy<Value = Constraint> + Clone {
    let zones = || proptest::collection::vec(zone(), 1..3);
    let key = || "zone".to_owned();
    prop_oneof![
        zone().prop_map(move |zone| Constraint::Is(key(), zone)),
        zone().prop_map(move |zone| Constraint::IsNot(key(), zone)),
        zones().prop_map(move |zones| Constraint::In(key(), zones)),
        zones().prop_map(move |zones| Constraint::NotIn(key(), zones)),
        Just(Constraint::Exists("disk".into())),
        Just(Constraint::Absent("disk".into())),
        Just(Constraint::Named(vec![
            "n0".into(),
            "n1".into(),
            "n9".into()
        ])),
        Just(Constraint::NotNamed(vec!["n0".into()])),
    ]
}

fn app() -> impl Strategy<Value = String> + Clone {
    prop_oneof![Just("x".to_owned()), Just("y".to_owned())]
}

/// Instances of an app, or all of the project.
fn selector(app: Option<String>) -> Selector {
    app.map_or_else(Selector::default, |app| Selector::label("app", app))
}

fn domain() -> impl Strategy<Value = Domain> + Clone {
    prop_oneof![Just(Domain::Node), Just(Domain::Label("zone".into()))]
}

fn affinity() -> impl Strategy<Value = Affinity> + Clone {
    let mode = prop_oneof![
        Just(AffinityMode::Require),
        Just(AffinityMode::Forbid),
        (-3..4_i32).prop_map(AffinityMode::Prefer)
    ];
    (proptest::option::weighted(0.8, app()), domain(), mode).prop_map(|(app, within, mode)| {
        Affinity {
            to: selector(app),
            within,
            mode,
        }
    })
}

fn spread() -> impl Strategy<Value = Spread> + Clone {
    let skew = proptest::option::of(1..3_u32);
    (
        proptest::option::weighted(0.8, app()),
        domain(),
        0..3_u32,
        skew,
    )
        .prop_map(|(app, over, weight, max_skew)| Spread {
            over,
            of: selector(app),
            weight,
            max_skew,
        })
}

pub(crate) fn rules() -> impl Strategy<Value = Rules> {
    let wish = (constraint(), -3..4_i32).prop_map(|(test, weight)| Preference { test, weight });
    let gpus = proptest::option::weighted(
        0.15,
        (1..3_u32, proptest::option::of(Just("a100".to_owned()))),
    );
    let policy = proptest::option::of(prop_oneof![Just(Policy::BinPack), Just(Policy::Spread)]);
    let tests = (some(constraint(), 2), some(wish, 3));
    let check_affinity = (some(affinity(), 2), some(spread(), 2));
    let rest = (
        some(port(), 1),
        gpus,
        policy,
        proptest::bool::weighted(0.2),
        any::<bool>(),
    );
    (app(), tests, check_affinity, rest).prop_map(|(app, tests, check_affinity, rest)| {
        let (ports, gpus, policy, vm, other) = rest;
        Rules {
            project: if other { "p" } else { "q" }.to_owned(),
            kind: if vm { Kind::Vm } else { Kind::Container },
            labels: [("app".to_owned(), app)].into(),
            constraints: tests.0,
            preferences: tests.1,
            affinities: check_affinity.0,
            spreads: check_affinity.1,
            ports,
            gpus: gpus.map(|(count, kind)| GpuDemand { count, kind }),
            policy,
        }
    })
}

pub(crate) fn size() -> impl Strategy<Value = Resources> {
    (
        0..1500_u64,
        0..3000_u64,
        prop_oneof![2 => Just(0), 1 => 0..2000_u64],
    )
        .prop_map(|(cpu, memory, disk)| Resources::new(cpu, memory * MIB, disk * MIB))
}
