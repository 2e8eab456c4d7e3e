//! Kubernetes' rules about versions hold for every pair of them.

use crate::world::{any_members, v, version};
use proptest::prelude::*;
use strata_clusters::skew::{SkewError, may_go, may_join, may_upgrade, oldest, order, targets};
use strata_types::cluster::{ClusterRole, KubernetesVersion};

#[test]
fn control_plane_upgrades_one_minor_at_a_time() {
    assert_eq!(may_upgrade(v("1.34.4"), v("1.34.5")), Ok(()));
    assert_eq!(may_upgrade(v("1.34.4"), v("1.35.0")), Ok(()));
    let why = |from, to| may_upgrade(v(from), v(to)).unwrap_err().to_string();
    assert_eq!(
        why("1.34.4", "1.36.0"),
        "v1.36.0 is more than one minor version after v1.34.4; go to v1.35 first"
    );
    assert_eq!(
        why("1.34.4", "1.34.3"),
        "v1.34.3 is older than v1.34.4; a control plane never goes back to an older version"
    );
    assert_eq!(
        why("1.34.4", "1.34.4"),
        "the control plane has v1.34.4 already"
    );
    assert!(matches!(
        may_upgrade(v("1.34.4"), v("2.0.0")),
        Err(SkewError::Major { .. })
    ));
}

#[test]
fn kubelet_skew_is_bounded() {
    for (kubelet, server, fits) in [
        ("1.34.4", "1.34.4", true),
        ("1.31.0", "1.34.4", true),
        ("1.30.9", "1.34.4", false),
        ("1.34.5", "1.34.4", false),
        ("1.35.0", "1.34.4", false),
    ] {
        let may = may_join(v(kubelet), v(server));
        assert_eq!(may.is_ok(), fits, "{kubelet} {server}");
    }
    let why = may_go(v("1.34.0"), v("1.31.2"), v("1.35.0")).unwrap_err();
    assert!(
        why.to_string().contains("bring the workers up first"),
        "{why}"
    );
}

proptest! {
    #[test]
    fn upgrade_targets_are_reachable_now(
        current in version(),
        behind in 0u16..5,
        available in proptest::collection::vec(version(), 0..12),
    ) {
        let kubelet = KubernetesVersion::new(current.major, current.minor.saturating_sub(behind), 0);
        let found = targets(current, kubelet, &available);
        prop_assert!(found.is_sorted_by(|a, b| a < b));
        for to in &available {
            let higher = *to > current && to.major == current.major;
            let near = higher && to.minor <= current.minor + 1;
            let kubelets = to.minor.saturating_sub(kubelet.minor) <= 3;
            prop_assert_eq!(found.contains(to), near && kubelets, "{} to {}", current, to);
        }
        for to in found {
            prop_assert!(available.contains(&to));
            prop_assert!(may_upgrade(current, to).is_ok());
            prop_assert!(may_join(kubelet, to).is_ok());
            // Every node that fits the new API server fitted the old one, or is
            // newer than that: no node is left behind by the step.
            prop_assert!(may_upgrade(to, current).is_err());
        }
    }

    #[test]
    fn the_control_plane_is_upgraded_first_and_always_in_the_same_order(
        members in any_members(),
        to in version(),
        done in 0usize..6,
    ) {
        let turn: Vec<_> = order(&members).into_iter().cloned().collect();
        prop_assert!(turn.iter().is_sorted_by_key(|m| m.role != ClusterRole::ControlPlane));
        prop_assert!(turn.iter().all(|m| m.joined));
        prop_assert_eq!(turn.len(), members.iter().filter(|m| m.joined).count());
        // Stopped after some, and gone on with.
        let mut later = members.clone();
        later.reverse();
        for member in turn.iter().take(done) {
            let mut all = later.iter_mut();
            all.find(|m| m.machine == member.machine).unwrap().version = to;
        }
        let again: Vec<_> = order(&later).into_iter().map(|m| m.machine.clone()).collect();
        let before: Vec<_> = turn.iter().map(|m| m.machine.clone()).collect();
        prop_assert_eq!(again, before);
        prop_assert_eq!(oldest(&members), turn.iter().map(|m| m.version).min());
    }
}
