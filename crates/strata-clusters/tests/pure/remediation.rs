//! Dead machines are replaced, slowly, and nothing else ever is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use strata_clusters::Observed;
use strata_clusters::status::{OutageHistory, RemediationDelays, Work, failed_members};
use strata_types::cluster::{ClusterRole, Member};

use crate::world::{all_well, any_members, any_observation, control, worker};

const MINUTE: i64 = 60_000;

fn names(
    members: &[Member],
    seen: &Observed,
    outage_history: &OutageHistory,
    now: i64,
) -> Vec<String> {
    let healed = failed_members(
        members,
        Work::Idle,
        seen,
        outage_history,
        &RemediationDelays::default(),
        now,
    );
    healed
        .iter()
        .map(|remediation| remediation.machine.to_string())
        .collect()
}

fn down(seen: &mut Observed, name: &str) {
    for node in seen.nodes.iter_mut().filter(|node| node.name == name) {
        node.ready = false;
    }
    if let Some(answers) = seen.etcd.get_mut(name) {
        *answers = false;
    }
}

#[test]
fn dead_worker_is_replaced_after_the_delay() {
    let members = [control(1), worker("a", 2), worker("a", 3)];
    let mut seen = all_well(&members);
    down(&mut seen, "w-3");
    let mut outage_history = OutageHistory::default();
    outage_history.note(&members, &seen, &BTreeSet::new(), 0);
    assert!(names(&members, &seen, &outage_history, 5 * MINUTE - 1).is_empty());
    assert_eq!(names(&members, &seen, &outage_history, 5 * MINUTE), ["w-3"]);
    // Sooner when the machine does not answer either.
    outage_history.note(&members, &seen, &["w-3".to_owned()].into(), 0);
    assert_eq!(names(&members, &seen, &outage_history, MINUTE), ["w-3"]);
    // Not while anything is done to the cluster.
    let max_wait = RemediationDelays::default();
    let busy = failed_members(
        &members,
        Work::Changing(""),
        &seen,
        &outage_history,
        &max_wait,
        9 * MINUTE,
    );
    assert!(busy.is_empty());
}

#[test]
fn remediation_delay_restarts_when_the_node_or_cluster_recovers() {
    let members = [control(1), worker("a", 2)];
    let mut seen = all_well(&members);
    down(&mut seen, "w-2");
    let mut outage_history = OutageHistory::default();
    let nobody = BTreeSet::new();
    outage_history.note(&members, &seen, &nobody, 0);
    outage_history.note(&members, &Observed::default(), &nobody, 4 * MINUTE);
    outage_history.note(&members, &seen, &nobody, 6 * MINUTE);
    assert!(names(&members, &seen, &outage_history, 10 * MINUTE).is_empty());
    assert_eq!(
        names(&members, &seen, &outage_history, 11 * MINUTE),
        ["w-2"]
    );
    outage_history.note(&members, &all_well(&members), &nobody, 11 * MINUTE);
    assert_eq!(outage_history, OutageHistory::default());
    outage_history.note(&[], &seen, &["w-2".to_owned()].into(), 0);
    assert_eq!(
        outage_history,
        OutageHistory::default(),
        "who is no member any more is forgotten"
    );
}

#[test]
fn machine_unreachable_only_from_this_server_is_kept() {
    let members = [control(1), worker("a", 2)];
    let mut outage_history = OutageHistory::default();
    let seen = all_well(&members);
    outage_history.note(&members, &seen, &["w-2".to_owned()].into(), 0);
    assert!(names(&members, &seen, &outage_history, 60 * MINUTE).is_empty());
}

#[test]
fn control_plane_is_replaced_one_by_one_while_etcd_has_quorum() {
    let members: Vec<Member> = (1..=5).map(control).collect();
    let mut seen = all_well(&members);
    let mut outage_history = OutageHistory::default();
    down(&mut seen, "cp-2");
    down(&mut seen, "cp-3");
    outage_history.note(&members, &seen, &BTreeSet::new(), 0);
    assert_eq!(
        names(&members, &seen, &outage_history, 5 * MINUTE),
        ["cp-2"]
    );
    down(&mut seen, "cp-4");
    assert!(names(&members, &seen, &outage_history, 5 * MINUTE).is_empty());
    seen.etcd.clear();
    assert!(names(&members, &seen, &outage_history, 5 * MINUTE).is_empty());
    // The only one is never replaced: all would be lost with it.
    let alone = [control(1)];
    let mut seen = all_well(&alone);
    down(&mut seen, "cp-1");
    outage_history.note(&alone, &seen, &BTreeSet::new(), 0);
    assert!(names(&alone, &seen, &outage_history, 60 * MINUTE).is_empty());
}

proptest! {
    #[test]
    fn remediation_is_bounded_per_round(
        (members, seen) in any_members().prop_flat_map(any_observation),
        since in proptest::collection::vec((0i64..8, 0i64..8), 14),
        now in 0i64..10,
        idle in any::<bool>(),
    ) {
        let names = || members.iter().map(|m| m.machine.as_str().to_owned());
        let past = |pick: fn(&(i64, i64)) -> i64| -> BTreeMap<String, i64> {
            names().zip(&since).map(|(n, s)| (n, pick(s) * MINUTE)).collect()
        };
        let outage_history = OutageHistory { not_ready: past(|s| s.0), lost: past(|s| s.1) };
        let max_wait = RemediationDelays { not_ready: Duration::from_secs(240), lost: Duration::from_secs(60) };
        let work = if idle { Work::Idle } else { Work::Changing("x") };
        let healed = failed_members(&members, work, &seen, &outage_history, &max_wait, now * MINUTE);
        if !idle || !seen.serves {
            prop_assert!(healed.is_empty());
            return Ok(());
        }
        let of = |role| healed.iter().filter(move |remediation| remediation.role == role);
        let workers = members.iter().filter(|m| m.role == ClusterRole::Worker).count();
        prop_assert!(of(ClusterRole::Worker).count() <= (workers / 3).max(1));
        prop_assert!(of(ClusterRole::ControlPlane).count() <= 1);
        let machines: BTreeSet<_> = healed.iter().map(|remediation| &remediation.machine).collect();
        prop_assert_eq!(machines.len(), healed.len());
        for remediation in &healed {
            let name = remediation.machine.as_str();
            let member = members.iter().find(|m| m.machine == remediation.machine).unwrap();
            prop_assert!(member.joined);
            let ready = seen.nodes.iter().any(|n| n.ready && n.name == name);
            prop_assert!(!ready, "{} reports to its cluster", name);
            let absent = now * MINUTE - outage_history.not_ready[name];
            let lost = now * MINUTE - outage_history.lost[name];
            prop_assert!(absent >= 4 * MINUTE || (absent >= MINUTE && lost >= MINUTE));
        }
        for remediation in of(ClusterRole::ControlPlane) {
            let name = remediation.machine.as_str();
            let others = seen.etcd.iter().filter(|(n, up)| *n != name && **up).count();
            // There is a majority now, and after it was removed.
            prop_assert!(others * 2 > seen.etcd.len());
        }
        // A dead worker is replaced at last.
        let dead = members.iter().any(|m| {
            let name = m.machine.as_str();
            m.role == ClusterRole::Worker
                && m.joined
                && !seen.nodes.iter().any(|n| n.ready && n.name == name)
                && now * MINUTE - outage_history.not_ready[name] >= 4 * MINUTE
        });
        prop_assert!(!dead || of(ClusterRole::Worker).count() > 0);
    }
}
