//! Which members are removed when a pool gets smaller: broken, marked, newest.

use proptest::prelude::*;
use strata_clusters::choose::members_to_remove;
use strata_clusters::{Observed, ObservedNode};
use strata_types::cluster::{ClusterRole, Member};

use crate::world::{all_well, any_members, any_observation, control, worker};

fn node<'a>(seen: &'a mut Observed, name: &str) -> &'a mut ObservedNode {
    seen.nodes
        .iter_mut()
        .find(|node| node.name == name)
        .unwrap()
}

#[test]
fn broken_members_are_removed_first_then_marked_then_newest() {
    let mut members: Vec<Member> = (2..=7).map(|number| worker("web", number)).collect();
    members.extend([control(1), worker("other", 9)]);
    members[0].joined = false;
    let mut seen = all_well(&members);
    node(&mut seen, "w-3").marked = true;
    node(&mut seen, "w-4").ready = false;
    seen.nodes.retain(|node| node.name != "w-5");
    let reported = members_to_remove("web", 9, &members, &seen);
    let reported: Vec<_> = reported
        .iter()
        .map(|(m, why)| (m.as_str(), why.as_str()))
        .collect();
    assert_eq!(
        reported,
        [
            ("w-5", "the cluster does not know it any more"),
            ("w-4", "it is not ready"),
            ("w-2", "it never joined"),
            ("w-3", "it is marked with cluster.k8s.io/delete-machine"),
            ("w-7", "it is the newest"),
            ("w-6", "it is the newest"),
        ]
    );
    // Nothing is known of a cluster that does not answer.
    let reported = members_to_remove("web", 2, &members, &Observed::default());
    let reported: Vec<_> = reported
        .iter()
        .map(|(machine, _)| machine.as_str())
        .collect();
    assert_eq!(reported, ["w-2", "w-7"]);
}

proptest! {
    #[test]
    fn worse_members_are_removed_first(
        (members, seen) in any_members().prop_flat_map(any_observation),
        how_many in 0usize..6,
        by in 0usize..14,
    ) {
        let gone = members_to_remove("a", how_many, &members, &seen);
        let mut other = members.clone();
        other.rotate_left(by % members.len().max(1));
        prop_assert_eq!(&members_to_remove("a", how_many, &other, &seen), &gone);
        let mine: Vec<&Member> = members
            .iter()
            .filter(|m| m.role == ClusterRole::Worker && m.pool == "a")
            .collect();
        prop_assert_eq!(gone.len(), how_many.min(mine.len()));
        let class = |member: &Member| {
            let node = seen.nodes.iter().find(|n| n.name == member.machine.as_str());
            match (member.joined, seen.serves, node) {
                (false, _, _) | (true, true, None) => 0,
                (true, true, Some(node)) if !node.ready => 0,
                (true, true, Some(node)) if node.marked => 1,
                _ => 2,
            }
        };
        let key = |member: &Member| (class(member), -member.added_at_ms);
        let went: Vec<&Member> = gone
            .iter()
            .map(|(machine, _)| *mine.iter().find(|m| m.machine == *machine).unwrap())
            .collect();
        prop_assert!(went.iter().is_sorted_by_key(|m| key(m)));
        let stays = mine.iter().filter(|m| !went.contains(m));
        if let Some(last) = went.last() {
            prop_assert!(stays.into_iter().all(|m| key(m) >= key(last)));
        }
    }
}
