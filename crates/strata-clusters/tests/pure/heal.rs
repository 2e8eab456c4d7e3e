//! Dead machines are replaced, slowly, and nothing else ever is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use strata_clusters::Observed;
use strata_clusters::status::{Memory, Patience, Work, heal};
use strata_types::cluster::{ClusterRole, Member};

use crate::world::{all_well, any_members, any_sight, control, worker};

const MINUTE: i64 = 60_000;

fn names(members: &[Member], seen: &Observed, memory: &Memory, now: i64) -> Vec<String> {
    let healed = heal(members, Work::Idle, seen, memory, &Patience::default(), now);
    healed.iter().map(|heal| heal.machine.to_string()).collect()
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
fn a_dead_worker_is_replaced_after_a_while() {
    let members = [control(1), worker("a", 2), worker("a", 3)];
    let mut seen = all_well(&members);
    down(&mut seen, "w-3");
    let mut memory = Memory::default();
    memory.note(&members, &seen, &BTreeSet::new(), 0);
    assert!(names(&members, &seen, &memory, 5 * MINUTE - 1).is_empty());
    assert_eq!(names(&members, &seen, &memory, 5 * MINUTE), ["w-3"]);
    // Sooner when the machine does not answer either.
    memory.note(&members, &seen, &["w-3".to_owned()].into(), 0);
    assert_eq!(names(&members, &seen, &memory, MINUTE), ["w-3"]);
    // Not while anything is done to the cluster.
    let patience = Patience::default();
    let busy = heal(
        &members,
        Work::Changing(""),
        &seen,
        &memory,
        &patience,
        9 * MINUTE,
    );
    assert!(busy.is_empty());
}

#[test]
fn a_wait_begins_anew_when_the_node_or_the_cluster_came_back() {
    let members = [control(1), worker("a", 2)];
    let mut seen = all_well(&members);
    down(&mut seen, "w-2");
    let mut memory = Memory::default();
    let nobody = BTreeSet::new();
    memory.note(&members, &seen, &nobody, 0);
    memory.note(&members, &Observed::default(), &nobody, 4 * MINUTE);
    memory.note(&members, &seen, &nobody, 6 * MINUTE);
    assert!(names(&members, &seen, &memory, 10 * MINUTE).is_empty());
    assert_eq!(names(&members, &seen, &memory, 11 * MINUTE), ["w-2"]);
    memory.note(&members, &all_well(&members), &nobody, 11 * MINUTE);
    assert_eq!(memory, Memory::default());
    memory.note(&[], &seen, &["w-2".to_owned()].into(), 0);
    assert_eq!(
        memory,
        Memory::default(),
        "who is no member any more is forgotten"
    );
}

#[test]
fn a_machine_that_only_this_server_does_not_reach_is_left_alone() {
    let members = [control(1), worker("a", 2)];
    let mut memory = Memory::default();
    let seen = all_well(&members);
    memory.note(&members, &seen, &["w-2".to_owned()].into(), 0);
    assert!(names(&members, &seen, &memory, 60 * MINUTE).is_empty());
}

#[test]
fn the_control_plane_is_healed_one_by_one_while_etcd_decides() {
    let members: Vec<Member> = (1..=5).map(control).collect();
    let mut seen = all_well(&members);
    let mut memory = Memory::default();
    down(&mut seen, "cp-2");
    down(&mut seen, "cp-3");
    memory.note(&members, &seen, &BTreeSet::new(), 0);
    assert_eq!(names(&members, &seen, &memory, 5 * MINUTE), ["cp-2"]);
    down(&mut seen, "cp-4");
    assert!(names(&members, &seen, &memory, 5 * MINUTE).is_empty());
    seen.etcd.clear();
    assert!(names(&members, &seen, &memory, 5 * MINUTE).is_empty());
    // The only one is never replaced: all would be lost with it.
    let alone = [control(1)];
    let mut seen = all_well(&alone);
    down(&mut seen, "cp-1");
    memory.note(&alone, &seen, &BTreeSet::new(), 0);
    assert!(names(&alone, &seen, &memory, 60 * MINUTE).is_empty());
}

proptest! {
    #[test]
    fn healing_touches_no_more_than_allowed(
        (members, seen) in any_members().prop_flat_map(any_sight),
        since in proptest::collection::vec((0i64..8, 0i64..8), 14),
        now in 0i64..10,
        idle in any::<bool>(),
    ) {
        let names = || members.iter().map(|m| m.machine.as_str().to_owned());
        let past = |pick: fn(&(i64, i64)) -> i64| -> BTreeMap<String, i64> {
            names().zip(&since).map(|(n, s)| (n, pick(s) * MINUTE)).collect()
        };
        let memory = Memory { not_ready: past(|s| s.0), lost: past(|s| s.1) };
        let patience = Patience { not_ready: Duration::from_secs(240), lost: Duration::from_secs(60) };
        let work = if idle { Work::Idle } else { Work::Changing("x") };
        let healed = heal(&members, work, &seen, &memory, &patience, now * MINUTE);
        if !idle || !seen.serves {
            prop_assert!(healed.is_empty());
            return Ok(());
        }
        let of = |role| healed.iter().filter(move |heal| heal.role == role);
        let workers = members.iter().filter(|m| m.role == ClusterRole::Worker).count();
        prop_assert!(of(ClusterRole::Worker).count() <= (workers / 3).max(1));
        prop_assert!(of(ClusterRole::ControlPlane).count() <= 1);
        let machines: BTreeSet<_> = healed.iter().map(|heal| &heal.machine).collect();
        prop_assert_eq!(machines.len(), healed.len());
        for heal in &healed {
            let name = heal.machine.as_str();
            let member = members.iter().find(|m| m.machine == heal.machine).unwrap();
            prop_assert!(member.joined);
            let ready = seen.nodes.iter().any(|n| n.ready && n.name == name);
            prop_assert!(!ready, "{} reports to its cluster", name);
            let absent = now * MINUTE - memory.not_ready[name];
            let lost = now * MINUTE - memory.lost[name];
            prop_assert!(absent >= 4 * MINUTE || (absent >= MINUTE && lost >= MINUTE));
        }
        for heal in of(ClusterRole::ControlPlane) {
            let name = heal.machine.as_str();
            let others = seen.etcd.iter().filter(|(n, up)| *n != name && **up).count();
            // There is a majority now, and after it was let go.
            prop_assert!(others * 2 > seen.etcd.len());
        }
        // A dead worker is not left alone for ever.
        let dead = members.iter().any(|m| {
            let name = m.machine.as_str();
            m.role == ClusterRole::Worker
                && m.joined
                && !seen.nodes.iter().any(|n| n.ready && n.name == name)
                && now * MINUTE - memory.not_ready[name] >= 4 * MINUTE
        });
        prop_assert!(!dead || of(ClusterRole::Worker).count() > 0);
    }
}
