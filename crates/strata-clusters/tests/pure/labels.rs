//! Labels that a node could not have are refused before a machine is booted.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strata_clusters::choose::check_labels;

fn may(key: &str, value: &str) -> bool {
    check_labels("labels", &[(key.to_owned(), value.to_owned())].into()).is_ok()
}

#[test]
fn label_keys_and_values_follow_kubernetes() {
    for key in [
        "a",
        "Tier",
        "a.b_c-d",
        "example.com/tier",
        "node.kubernetes.io/x",
        "x.node.kubernetes.io/y",
        "x.kubelet.kubernetes.io/y",
        "topology.kubernetes.io/zone",
        "mykubernetes.io/x",
    ] {
        assert!(may(key, "v"), "{key}");
    }
    for key in [
        "",
        "-a",
        "a-",
        "a b",
        "ä",
        "/a",
        "a/",
        "a/b/c",
        "A.com/x",
        "a..b/x",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "k8s.io/x",
        "x.k8s.io/y",
        "node-role.kubernetes.io/control-plane",
        "node-restriction.kubernetes.io/x",
        "topology.kubernetes.io/other",
        &"a".repeat(64),
        &format!("{}/x", ["a"; 130].join(".")),
    ] {
        assert!(!may(key, "v"), "{key}");
    }
    for (value, fine) in [
        ("", true),
        ("A.b_c-1", true),
        ("-", false),
        ("a ", false),
        ("a,b", false),
    ] {
        assert_eq!(may("a", value), fine, "{value}");
    }
    assert!(!may("a", &"v".repeat(64)));
    let many: BTreeMap<_, _> = (0..65).map(|n| (format!("l{n}"), String::new())).collect();
    assert!(check_labels("labels", &many).is_err());
}

proptest! {
    #[test]
    fn accepted_labels_are_plain_text(key in ".{0,70}", value in ".{0,70}") {
        if may(&key, &value) {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            prop_assert!(!key.is_empty() && key.chars().all(plain) && value.chars().all(plain));
            prop_assert!(value.len() <= 63);
        }
    }

    #[test]
    fn plain_labels_are_accepted(
        key in "([a-z0-9]{1,10}\\.[a-z]{2,5}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?",
        value in "([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?",
    ) {
        prop_assume!(!key.starts_with("k8s.io/"));
        prop_assert!(may(&key, &value));
    }
}
