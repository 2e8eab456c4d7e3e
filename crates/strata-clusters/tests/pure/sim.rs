//! The simulated driver holds to the rules of the real one.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use proptest::prelude::*;
use strata_clusters::sim::{Fault, Sim};
use strata_clusters::skew::order;
use strata_clusters::{ClusterFacts, Drained, Driver, DriverError};
use strata_types::cluster::{ClusterRole, Member};

use crate::world::{control, v, worker};

fn quiet(_: String) {}

/// Calls answer at once, or never.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the call never answers")
}

fn facts(sim: &Sim, members: Vec<Member>) -> ClusterFacts {
    let name = "shop".parse().unwrap();
    ClusterFacts {
        secrets: sim.secrets(&name).unwrap(),
        name,
        id: "1".into(),
        version: v("v1.34.4"),
        controls: 1,
        pod_security: None,
        members,
    }
}

/// Joins a member, trying again as long as it may help.
fn join(sim: &Sim, cluster: &ClusterFacts, member: &Member, first: bool) {
    again(|| now(sim.install(cluster, member, &quiet)));
    again(|| match first {
        true => now(sim.init(cluster, member, &quiet)),
        false => now(sim.join(cluster, member, &quiet)),
    });
    again(|| now(sim.ready(cluster, member, &quiet)));
}

fn again<T>(mut call: impl FnMut() -> Result<T, DriverError>) -> T {
    for _ in 0..100 {
        match call() {
            Ok(done) => return done,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
    panic!("a hundred failures in a row");
}

fn built(sim: &Sim, controls: u8, workers: u8) -> ClusterFacts {
    let mut members: Vec<_> = (1..=controls).map(control).collect();
    members.extend((controls + 1..=controls + workers).map(|n| worker("web", n)));
    let cluster = facts(sim, members);
    for member in &cluster.members {
        join(sim, &cluster, member, member.number == 1);
    }
    again(|| now(sim.update_peers(&cluster)));
    cluster
}

#[test]
fn simulated_cluster_is_created_used_and_deleted() {
    let sim = Sim::default();
    let cluster = built(&sim, 3, 2);
    assert!(sim.peers_are_current("shop"));
    let seen = now(sim.observe(&cluster));
    assert!(seen.serves && seen.nodes.len() == 5 && seen.nodes.iter().all(|n| n.ready));
    assert_eq!(seen.etcd.len(), 3);
    sim.set_pods("shop", "w-4", 3);
    now(sim.cordon(&cluster, "w-4", true)).unwrap();
    assert_eq!(now(sim.drain(&cluster, "w-4")), Ok(Drained::Empty));
    assert_eq!(sim.nodes("shop")["w-5"].pods, 3);
    now(sim.remove_member(&cluster, cluster.member("w-4").unwrap())).unwrap();
    assert!(!sim.nodes("shop").contains_key("w-4"));
    assert_eq!(sim.all_clusters(), ["shop"]);
    for member in &cluster.members {
        sim.wipe(member.machine.as_str());
    }
    sim.clear(&cluster.name).unwrap();
    assert!(sim.leftovers().is_empty(), "{:?}", sim.leftovers());
    assert!(sim.violations().is_empty(), "{:?}", sim.violations());
}

#[test]
fn invalid_calls_are_refused_and_recorded_as_violations() {
    let sim = Sim::default();
    let cluster = facts(&sim, vec![control(1), control(2), worker("web", 3)]);
    let [first, second, third] = &cluster.members[..] else {
        panic!()
    };
    let noted = |count: usize| assert_eq!(sim.violations().len(), count, "{:?}", sim.violations());
    assert!(
        now(sim.init(&cluster, first, &quiet)).is_err(),
        "nothing was installed"
    );
    for member in &cluster.members {
        now(sim.install(&cluster, member, &quiet)).unwrap();
    }
    noted(1);
    assert!(
        now(sim.join(&cluster, third, &quiet)).is_err(),
        "it was not begun"
    );
    noted(2);
    now(sim.init(&cluster, first, &quiet)).unwrap();
    now(sim.init(&cluster, first, &quiet)).unwrap();
    assert!(
        now(sim.init(&cluster, second, &quiet)).is_err(),
        "it was begun elsewhere"
    );
    noted(3);
    now(sim.join(&cluster, third, &quiet)).unwrap();
    let to = v("v1.35.0");
    assert!(
        now(sim.upgrade(&cluster, third, to, false, &quiet)).is_err(),
        "not its turn"
    );
    assert!(
        now(sim.upgrade(&cluster, first, v("v1.36.0"), true, &quiet)).is_err(),
        "skips"
    );
    noted(5);
    now(sim.upgrade(&cluster, first, to, true, &quiet)).unwrap();
    sim.set_pods("shop", "w-3", 1);
    assert!(
        now(sim.upgrade(&cluster, third, to, false, &quiet)).is_err(),
        "not drained"
    );
    assert!(
        now(sim.remove_member(&cluster, third)).is_err(),
        "not drained"
    );
    assert!(now(sim.remove_member(&cluster, first)).is_err(), "the last");
    noted(8);
    let mut other = cluster.clone();
    other.id = "2".into();
    assert!(
        now(sim.install(&other, third, &quiet)).is_err(),
        "another's machine"
    );
    noted(9);
}

#[test]
fn etcd_needs_a_majority() {
    let sim = Sim::default();
    let cluster = built(&sim, 3, 1);
    sim.set_up("cp-2", false);
    assert!(now(sim.observe(&cluster)).serves);
    let alive = cluster.member("cp-3").unwrap();
    assert!(
        now(sim.remove_member(&cluster, alive)).is_err(),
        "one of two that decide"
    );
    sim.set_up("cp-3", false);
    let seen = now(sim.observe(&cluster));
    assert!(!seen.serves && seen.nodes.is_empty() && seen.etcd.len() == 3);
    let silent = now(sim.cordon(&cluster, "w-4", true)).unwrap_err();
    assert!(matches!(silent, DriverError::Silent(_)));
    // It comes back as it was, unless it was wiped.
    sim.set_up("cp-3", true);
    sim.wipe("cp-2");
    sim.set_up("cp-2", true);
    let second = cluster.member("cp-2").unwrap();
    now(sim.install(&cluster, second, &quiet)).unwrap();
    assert!(
        now(sim.join(&cluster, second, &quiet)).is_err(),
        "etcd has its dead self"
    );
    now(sim.remove_member(&cluster, second)).unwrap();
    now(sim.install(&cluster, second, &quiet)).unwrap();
    now(sim.join(&cluster, second, &quiet)).unwrap();
    assert!(now(sim.observe(&cluster)).etcd.values().all(|up| *up));
    assert!(sim.violations().is_empty());
}

#[test]
fn workers_wait_for_the_whole_control_plane() {
    let sim = Sim::default();
    let cluster = built(&sim, 3, 1);
    let to = v("v1.34.5");
    let upgrade =
        |at: usize, first| now(sim.upgrade(&cluster, &cluster.members[at], to, first, &quiet));
    upgrade(0, true).unwrap();
    upgrade(1, false).unwrap();
    assert!(upgrade(3, false).is_err());
    assert_eq!(sim.violations().len(), 1);
    upgrade(2, false).unwrap();
    upgrade(3, false).unwrap();
}

#[test]
fn snapshot_restores_the_control_plane() {
    let sim = Sim::default();
    let cluster = built(&sim, 3, 1);
    let cluster_config = now(sim.snapshot(&cluster, "before upgrade")).unwrap();
    let to = v("v1.35.0");
    assert!(
        now(sim.preflight(&cluster, to))
            .unwrap()
            .blockers
            .is_empty()
    );
    now(sim.upgrade(&cluster, &cluster.members[0], to, true, &quiet)).unwrap();
    sim.set_up("cp-2", false);
    sim.set_up("cp-3", false);
    assert!(!now(sim.observe(&cluster)).serves);
    assert!(now(sim.restore(&cluster, "none", &quiet)).is_err());
    assert_eq!(
        now(sim.restore(&cluster, &cluster_config.id, &quiet)).unwrap(),
        ["cp-1"]
    );
    let seen = now(sim.observe(&cluster));
    assert!(seen.serves && seen.version == "v1.34.4");
    assert_eq!(sim.nodes("shop")["cp-1"].version, v("v1.34.4"));
    assert_eq!(sim.snapshots(&cluster.name).unwrap(), [cluster_config]);
}

#[test]
fn injected_faults_fail_calls() {
    let sim = Sim::default();
    let cluster = built(&sim, 1, 1);
    let grant_access = || {
        sim.grant_access(&cluster, "jo", Some("view"))
            .now_or_never()
    };
    let users = || sim.cluster("shop").unwrap().users.len();
    sim.fail_next(2, Fault::Before);
    assert!(grant_access().unwrap().is_err() && now(sim.observe(&cluster)).serves);
    assert!(grant_access().unwrap().unwrap_err().is_transient());
    assert_eq!(users(), 0);
    sim.fail_at(2, Fault::After);
    assert!(grant_access().unwrap().is_ok());
    now(sim.grant_access(&cluster, "jo", None)).unwrap_err();
    assert_eq!(users(), 0);
    sim.fail_at(1, Fault::CrashAfter);
    assert!(grant_access().is_none());
    assert_eq!(users(), 1);
    sim.fail_every(2, Fault::Refused);
    assert!(grant_access().unwrap().is_ok());
    assert!(!grant_access().unwrap().unwrap_err().is_transient());
    sim.set_faults(|name, _| match name {
        "observe" => Fault::Before,
        _ => Fault::None,
    });
    assert!(!now(sim.observe(&cluster)).serves);
    sim.clear_faults();
    assert!(now(sim.observe(&cluster)).serves);
    assert_eq!(sim.calls().last().unwrap().0, "grant_access");
}

#[test]
fn simulated_machines_of_another_driver_are_followed() {
    let sim = Sim::default();
    let lives: Arc<Mutex<BTreeMap<String, Option<u64>>>> = Arc::default();
    let reported = lives.clone();
    sim.follow(move |machine| {
        reported
            .lock()
            .unwrap()
            .get(machine)
            .copied()
            .unwrap_or(Some(7))
    });
    let cluster = built(&sim, 1, 1);
    assert!(
        now(sim.observe(&cluster))
            .nodes
            .iter()
            .all(|node| node.ready)
    );
    lives.lock().unwrap().insert("w-2".into(), None);
    let seen = now(sim.observe(&cluster));
    assert_eq!(seen.nodes.iter().filter(|node| node.ready).count(), 1);
    // It was off: what it holds is still there.
    lives.lock().unwrap().insert("w-2".into(), Some(7));
    assert!(
        now(sim.observe(&cluster))
            .nodes
            .iter()
            .all(|node| node.ready)
    );
    // It was wiped.
    lives.lock().unwrap().insert("w-2".into(), Some(8));
    assert!(
        !now(sim.observe(&cluster))
            .nodes
            .iter()
            .all(|node| node.ready)
    );
    assert!(!sim.leftovers().iter().any(|what| what.contains("w-2")));
}

proptest! {
    #[test]
    fn retry_converges_after_any_fault(seed in any::<u64>(), controls in 0u8..3, workers in 0u8..4) {
        let sim = Sim::default();
        let name = "shop".parse().unwrap();
        let secrets = sim.secrets(&name).unwrap();
        sim.fail_randomly(seed, 300, &[Fault::Before, Fault::After]);
        let controls = controls * 2 + 1;
        let mut members: Vec<_> = (1..=controls).map(control).collect();
        members.extend((controls + 1..=controls + workers).map(|n| worker("web", n)));
        let cluster = ClusterFacts { name, id: "1".into(), version: v("v1.34.4"), controls: 1, pod_security: None, members, secrets };
        for member in &cluster.members {
            join(&sim, &cluster, member, member.number == 1);
        }
        again(|| now(sim.update_peers(&cluster)));
        prop_assert!(sim.peers_are_current("shop"));
        let to = v("v1.35.1");
        for (at, member) in order(&cluster.members).into_iter().enumerate() {
            if member.role == ClusterRole::Worker {
                let drained = again(|| now(sim.drain(&cluster, member.machine.as_str())));
                prop_assert_eq!(drained, Drained::Empty);
            }
            again(|| now(sim.upgrade(&cluster, member, to, at == 0, &quiet)));
            again(|| now(sim.cordon(&cluster, member.machine.as_str(), false)));
        }
        let nodes = sim.nodes("shop");
        prop_assert_eq!(nodes.len(), cluster.members.len());
        prop_assert!(nodes.values().all(|node| node.version == to && !node.cordoned));
        prop_assert!(sim.violations().is_empty(), "{:?}", sim.violations());
    }
}
