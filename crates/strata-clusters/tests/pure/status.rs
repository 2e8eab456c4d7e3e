//! How a cluster stands follows from what was seen, and is never prettier.

use std::collections::BTreeSet;

use proptest::prelude::*;
use strata_clusters::Observed;
use strata_clusters::status::{Facts, OutageHistory, RemediationDelays, Work, status};
use strata_types::cluster::{ClusterRole, ClusterSpec, ClusterStatus, Member};

use crate::world::{all_well, any_members, any_observation, control, pool, spec, v, worker};

struct Case {
    spec: ClusterSpec,
    members: Vec<Member>,
    seen: Observed,
    outage_history: OutageHistory,
    unreplaced: Vec<String>,
    lost: BTreeSet<String>,
}

impl Case {
    fn new(controls: u8, workers: u8) -> Self {
        let mut members: Vec<_> = (1..=controls).map(control).collect();
        members.extend((controls + 1..=controls + workers).map(|n| worker("web", n)));
        Self {
            spec: spec(u32::from(controls), vec![pool("web", u32::from(workers))]),
            seen: all_well(&members),
            members,
            outage_history: OutageHistory::default(),
            unreplaced: Vec::new(),
            lost: BTreeSet::new(),
        }
    }

    fn down(&mut self, name: &str, reason: &str) {
        for node in self.seen.nodes.iter_mut().filter(|node| node.name == name) {
            (node.ready, node.reason) = (false, reason.into());
        }
    }

    fn reported(&self, work: Work<'_>, stopped: Option<&str>) -> (ClusterStatus, String) {
        let facts = Facts {
            name: "shop",
            spec: &self.spec,
            members: &self.members,
            work,
            stopped,
            unreplaced: &self.unreplaced,
            lost: &self.lost,
        };
        status(
            &facts,
            Some(&self.seen),
            &self.outage_history,
            &RemediationDelays::default(),
            0,
        )
    }
}

#[test]
fn healthy_cluster_is_running_without_a_message() {
    let case = Case::new(3, 2);
    assert_eq!(
        case.reported(Work::Idle, None),
        (ClusterStatus::Running, String::new())
    );
}

#[test]
fn running_operation_is_reported_first() {
    let mut case = Case::new(1, 1);
    let word = |case: &Case, work| case.reported(work, None).0;
    assert_eq!(word(&case, Work::Creating), ClusterStatus::Provisioning);
    assert_eq!(word(&case, Work::Deleting), ClusterStatus::Stopping);
    assert_eq!(word(&case, Work::Changing("x")), ClusterStatus::Reconciling);
    // The only API server goes away while it is upgraded; nothing else may.
    case.seen = Observed::default();
    let upgrading = Work::Upgrading(v("v1.35.4"));
    assert_eq!(word(&case, upgrading), ClusterStatus::Reconciling);
    assert_eq!(word(&case, Work::Changing("x")), ClusterStatus::Error);
    let mut three = Case::new(3, 0);
    three.seen = Observed::default();
    assert_eq!(word(&three, upgrading), ClusterStatus::Error);
    assert_eq!(
        word(&three, Work::Restoring("s")),
        ClusterStatus::Reconciling
    );
}

/// Kubernetes needs 40 seconds and more to notice that a node is silent.
#[test]
fn machine_that_does_not_answer_degrades_before_kubernetes_notices() {
    let mut case = Case::new(1, 2);
    case.lost.insert("w-3".into());
    let (status, message) = case.reported(Work::Idle, None);
    assert_eq!(status, ClusterStatus::Degraded, "{message}");
    assert!(
        message.contains("the machine of worker w-3 does not answer"),
        "{message}"
    );
    // While it changes, machines come and go.
    let (_, message) = case.reported(Work::Changing("its pools"), None);
    assert!(!message.contains("w-3"), "{message}");
}

#[test]
fn unobserved_cluster_is_neither_running_nor_unspecified() {
    let case = Case::new(1, 1);
    let reported = |work, stopped| {
        let facts = Facts {
            name: "shop",
            spec: &case.spec,
            members: &case.members,
            work,
            stopped,
            unreplaced: &[],
            lost: &BTreeSet::new(),
        };
        status(
            &facts,
            None,
            &case.outage_history,
            &RemediationDelays::default(),
            0,
        )
    };
    let (status, message) = reported(Work::Idle, Some("the upgrade stopped"));
    assert_eq!(status, ClusterStatus::Reconciling);
    assert_eq!(
        message,
        "this server has just begun and has not seen it answer yet; the upgrade stopped"
    );
    // What the record says is reported at once.
    let (status, message) = reported(Work::Upgrading(v("v1.35.4")), None);
    assert_eq!(status, ClusterStatus::Reconciling);
    assert!(
        message.starts_with("it is being upgraded to v1.35.4; "),
        "{message}"
    );
    assert_eq!(
        reported(Work::Creating, None).0,
        ClusterStatus::Provisioning
    );
    assert_eq!(reported(Work::Deleting, None).0, ClusterStatus::Stopping);
}

#[test]
fn broken_worker_is_reported_with_the_next_action() {
    let mut case = Case::new(1, 2);
    case.down("w-3", "Kubelet stopped posting node status.");
    case.outage_history
        .note(&case.members, &case.seen, &BTreeSet::new(), -120_000);
    assert_eq!(
        case.reported(Work::Idle, None),
        (
            ClusterStatus::Degraded,
            "worker w-3 is NotReady: Kubelet stopped posting node status.; it is replaced in 3 minutes; check: strata machine console w-3".into()
        )
    );
}

#[test]
fn most_important_problem_is_first_and_the_rest_counted() {
    let mut case = Case::new(3, 6);
    for number in 4..=9 {
        case.down(&format!("w-{number}"), "");
    }
    case.down("cp-2", "gone\nfor good");
    case.seen.etcd.insert("cp-2".into(), false);
    let (status, message) = case.reported(Work::Idle, Some("the upgrade stopped at w-4"));
    assert_eq!(status, ClusterStatus::Degraded);
    assert!(
        message.starts_with("the upgrade stopped at w-4; etcd on cp-2 does not answer; 2 of 3 do, and 2 must for the cluster to serve; control-plane machine cp-2 is NotReady: gone for good; "),
        "{message}"
    );
    assert!(message.ends_with("; and 5 more"), "{message}");
}

#[test]
fn unresponsive_cluster_is_an_error_with_a_hint() {
    let mut case = Case::new(3, 1);
    case.seen.serves = false;
    case.seen.why = "connection refused".into();
    case.seen.etcd.insert("cp-1".into(), false);
    case.seen.etcd.insert("cp-2".into(), false);
    let (status, message) = case.reported(Work::Idle, None);
    assert_eq!(status, ClusterStatus::Error);
    assert_eq!(
        message,
        "its API does not answer: connection refused; etcd has lost its majority (1 of 3 answer); check its machines: strata machine list, strata machine console cp-1; or restore a snapshot: strata cluster restore shop"
    );
}

#[test]
fn cluster_that_differs_from_its_spec_is_not_running() {
    let mut case = Case::new(1, 1);
    case.spec.pools[0].count = 2;
    assert_eq!(case.reported(Work::Idle, None).0, ClusterStatus::Degraded);
    case.spec.pools[0].count = 1;
    case.seen.broken_pods = vec!["kube-system/coredns-1".into()];
    assert_eq!(case.reported(Work::Idle, None).0, ClusterStatus::Degraded);
    case.seen.broken_pods.clear();
    assert_eq!(case.reported(Work::Idle, None).0, ClusterStatus::Running);
    case.spec.version = v("v1.34.5");
    let (status, message) = case.reported(Work::Idle, None);
    assert_eq!(status, ClusterStatus::Degraded);
    assert!(
        message.ends_with("strata cluster upgrade shop"),
        "{message}"
    );
}

#[test]
fn irreplaceable_member_is_named_with_a_hint() {
    let mut case = Case::new(1, 2);
    case.down("w-2", "gone");
    case.down("w-3", "gone");
    case.unreplaced = vec!["w-3".into()];
    let (status, message) = case.reported(Work::Idle, None);
    assert_eq!(status, ClusterStatus::Degraded);
    let (first, second) = message.split_once("; worker w-3").unwrap();
    assert!(first.contains("it is replaced in"), "{first}");
    assert!(
        second.contains("no machine is free to replace it")
            && second.contains("strata machine add"),
        "{second}"
    );
}

fn any_work() -> impl Strategy<Value = Work<'static>> {
    prop_oneof![
        4 => Just(Work::Idle),
        1 => Just(Work::Creating),
        1 => Just(Work::Changing("pool web")),
        1 => Just(Work::Upgrading(v("v1.35.4"))),
        1 => Just(Work::Restoring("s")),
        1 => Just(Work::Deleting),
    ]
}

proptest! {
    #[test]
    fn status_is_total_and_never_better_than_observed(
        (mut members, mut seen) in any_members().prop_flat_map(any_observation),
        work in any_work(),
        stopped in proptest::option::weighted(0.3, ".{1,400}"),
        looked in proptest::bool::weighted(0.9),
        (as_asked, well) in any::<(bool, bool)>(),
    ) {
        let mut spec = spec(3, vec![pool("a", 2), pool("b", 1)]);
        if as_asked {
            let count = |name: &str| {
                let mine = members.iter().filter(|m| m.pool == name);
                u32::try_from(mine.count()).expect("few")
            };
            spec.control_plane.count = count("");
            spec.pools = ["a", "b", "c"].map(|name| pool(name, count(name))).into();
            for member in &mut members {
                (member.version, member.joined) = (spec.version, true);
            }
        }
        if well {
            seen = all_well(&members);
        }
        let facts = Facts {
            name: "shop",
            spec: &spec,
            members: &members,
            work,
            stopped: stopped.as_deref(),
            unreplaced: &[],
            lost: &BTreeSet::new(),
        };
        let outage_history = OutageHistory::default();
        let seen_or_not = looked.then_some(&seen);
        let (word, message) = status(&facts, seen_or_not, &outage_history, &RemediationDelays::default(), 0);
        let takes_part = |m: &Member| {
            m.joined && seen.nodes.iter().any(|n| n.ready && n.name == m.machine.as_str())
        };
        let whole = looked && seen.serves && members.iter().all(takes_part);
        if word == ClusterStatus::Running {
            prop_assert!(whole && work == Work::Idle && stopped.is_none());
            prop_assert!(seen.etcd.values().all(|answers| *answers));
            prop_assert!(seen.broken_pods.is_empty());
            prop_assert!(members.iter().all(|m| m.version == spec.version));
            let controls = members.iter().filter(|m| m.role == ClusterRole::ControlPlane);
            prop_assert!(controls.count() >= spec.control_plane.count as usize);
        }
        // And never uglier.
        if as_asked && well && looked && work == Work::Idle && stopped.is_none() {
            prop_assert_eq!(word, ClusterStatus::Running);
        }
        prop_assert!(word != ClusterStatus::Unspecified);
        prop_assert_eq!(word == ClusterStatus::Running, message.is_empty());
        prop_assert!(!message.contains('\n') && message.len() < 6000);
        let idle = work == Work::Idle;
        prop_assert_eq!(word == ClusterStatus::Stopping, work == Work::Deleting);
        prop_assert_eq!(word == ClusterStatus::Provisioning, work == Work::Creating);
        if looked && idle {
            prop_assert_eq!(word == ClusterStatus::Error, !seen.serves);
            prop_assert!(word != ClusterStatus::Reconciling);
        }
        if word == ClusterStatus::Degraded {
            prop_assert!(looked && seen.serves && idle);
        }
    }
}
