//! How a cluster looks from outside, by a few calls to its API and to its etcd
//! that are made at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::api::{Api, ApiError};
use strata_etcd::etcdserverpb::Member;

use super::etcd::{Etcd, Reported};
use super::objects::{List, Node, Pod, Version};
use crate::{Observed, ObservedNode};

/// All in all: one server that is silent is waited for, and another called.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(6);
/// Pods may be not ready for so long before it is reported.
const BROKEN_POD_GRACE_MS: i64 = 45_000;
/// A scale-down removes these first.
const MARK: &str = "cluster.k8s.io/delete-machine";
pub(super) const SYSTEM: &str = "/api/v1/namespaces/kube-system";

pub(super) async fn observe(api: &Api, etcd: &Etcd) -> Observed {
    let pods = format!("{SYSTEM}/pods");
    let asked = async {
        tokio::join!(
            api.text("/readyz"),
            api.get::<Version>("/version"),
            api.get::<List<Node>>("/api/v1/nodes"),
            api.get::<List<Pod>>(&pods),
        )
    };
    let asked = tokio::time::timeout(SCRIPT_TIMEOUT, asked);
    let (asked, reported) = tokio::join!(asked, etcd.query());
    let Ok((ready, version, nodes, pods)) = asked else {
        return Observed {
            why: format!("no answer within {SCRIPT_TIMEOUT:?}"),
            etcd: members(&reported, &[]),
            ..Observed::default()
        };
    };
    let mut silent = ready.err().map(|error| why(&error));
    // No node must look absent because the request failed.
    let nodes = nodes.map(|list| list.items).unwrap_or_else(|error| {
        silent.get_or_insert_with(|| format!("its API answers, but not about its nodes: {error}"));
        Vec::new()
    });
    let pods = pods.map(|list| list.items).unwrap_or_default();
    Observed {
        serves: silent.is_none(),
        why: silent.unwrap_or_default(),
        version: version.map(|it| it.git_version).unwrap_or_default(),
        etcd: members(&reported, &pods),
        broken_pods: broken_for_long(&pods, &nodes, jiff::Timestamp::now().as_millisecond()),
        nodes: nodes.iter().map(observed).collect(),
    }
}

fn why(error: &ApiError) -> String {
    match error {
        ApiError::Silent(_) => format!("its API does not answer: {error}"),
        ApiError::Answered { .. } => format!("its API is not ready: {error}"),
    }
}

/// A node, in our words.
pub(super) fn observed(node: &Node) -> ObservedNode {
    let ready = node.is_ready();
    let reason = match node.readiness() {
        _ if ready => String::new(),
        Some(condition) => format!("{}: {}", condition.reason, condition.message),
        None => "it has not said so yet".into(),
    };
    ObservedNode {
        name: node.metadata.name.clone(),
        ready,
        reason,
        version: node.status.node_info.kubelet_version.clone(),
        unschedulable: node.spec.unschedulable,
        marked: node.metadata.annotations.contains_key(MARK),
    }
}

/// The members as etcd itself has them, with those that have no member in the
/// record: they count for the majority. Whether one answers is its own report;
/// for one that was not called, its pod counts. A learner does not vote yet,
/// and counts as one that does not answer.
fn members(reported: &[Reported], pods: &[Pod]) -> BTreeMap<String, bool> {
    let sure = reported.iter().find_map(|reported| reported.sure.as_ref());
    let known = sure.or_else(|| reported.iter().find_map(|reported| reported.knows.as_ref()));
    let answers = |member: &Member| {
        let asked = reported.iter().find(|reported| {
            let peer = format!("https://{}:2380", reported.address);
            member.peer_urls.contains(&peer)
        });
        asked.map_or_else(
            || is_up(pods, &member.name),
            |reported| reported.knows.is_some(),
        )
    };
    let name = |member: &Member| match (member.name.as_str(), member.peer_urls.first()) {
        ("", Some(peer)) => peer.clone(),
        ("", None) => format!("{:x}", member.id),
        (name, _) => name.to_owned(),
    };
    let known = known.into_iter().flatten();
    known
        .map(|member| (name(member), !member.is_learner && answers(member)))
        .collect()
}

/// By the pod of a member: its readiness is etcd's own answer.
fn is_up(pods: &[Pod], machine: &str) -> bool {
    let name = format!("etcd-{machine}");
    let pod = pods.iter().find(|pod| pod.metadata.name == name);
    pod.is_some_and(Pod::is_ready)
}

/// Those of the system that should run and have not for a while: a pod that was
/// started just now, or is started again, is not reported. Nor is what is left
/// of a node that was removed, until Kubernetes collects it.
fn broken_for_long(pods: &[Pod], nodes: &[Node], now_ms: i64) -> Vec<String> {
    let has_node = |pod: &Pod| {
        let on = &pod.spec.node_name;
        on.is_empty() || nodes.iter().any(|node| node.metadata.name == *on)
    };
    let lasts = |pod: &&Pod| {
        let since = pod.unready_since_ms();
        is_broken(pod)
            && has_node(pod)
            && since.is_none_or(|since| now_ms - since >= BROKEN_POD_GRACE_MS)
    };
    pods.iter().filter(lasts).map(Pod::full_name).collect()
}

/// Those of the system that should run and do not.
pub(super) fn broken(pods: &[Pod]) -> Vec<String> {
    let broken = pods.iter().filter(|pod| is_broken(pod));
    broken.map(Pod::full_name).collect()
}

/// One that is being deleted is on its way out, and one that ended has done
/// its work.
fn is_broken(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !pod.is_over() && !pod.is_ready()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, address: &str) -> Member {
        Member {
            id: 1,
            name: name.into(),
            peer_urls: vec![format!("https://{address}:2380")],
            is_learner: false,
        }
    }

    fn reported(address: &str, members: Option<&[Member]>, sure: bool) -> Reported {
        let knows = members.map(<[_]>::to_vec);
        Reported {
            address: address.into(),
            sure: knows.clone().filter(|_| sure),
            knows,
        }
    }

    fn observed(reported: &[Reported], pods: &[Pod]) -> Vec<(String, bool)> {
        members(reported, pods).into_iter().collect()
    }

    #[test]
    fn pod_of_a_removed_node_is_not_broken() {
        let pod = |name: &str, node: &str| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": name, "namespace": "kube-system"},
                "spec": {"nodeName": node},
                "status": {"phase": "Running"},
            }))
            .unwrap()
        };
        let node = serde_json::json!({"metadata": {"name": "m1"}});
        let nodes: Vec<Node> = vec![serde_json::from_value(node).unwrap()];
        let pods = [pod("here", "m1"), pod("left", "m2"), pod("waiting", "")];
        let broken = broken_for_long(&pods, &nodes, 0);
        assert_eq!(broken, ["kube-system/here", "kube-system/waiting"]);
    }

    #[test]
    fn unregistered_etcd_members_are_counted() {
        let list = [
            member("c1", "192.0.2.1"),
            member("c2", "192.0.2.2"),
            member("ghost", "192.0.2.9"),
            member("", "192.0.2.3"),
        ];
        let reported = [
            reported("192.0.2.1", Some(&list), true),
            reported("192.0.2.2", None, false),
        ];
        let expected = [
            ("c1", true),
            ("c2", false),
            ("ghost", false),
            ("https://192.0.2.3:2380", false),
        ];
        let expected = expected.map(|(name, up)| (name.to_owned(), up));
        assert_eq!(observed(&reported, &[]), expected);
    }

    #[test]
    fn unqueried_etcd_member_health_follows_its_pod() {
        let mut list = [member("c1", "192.0.2.1"), member("c2", "192.0.2.2")];
        let pod = serde_json::json!({
            "metadata": {"name": "etcd-c2"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let pods: Vec<Pod> = vec![serde_json::from_value(pod).unwrap()];
        let known = [reported("192.0.2.1", Some(&list), true)];
        let both = [("c1".to_owned(), true), ("c2".to_owned(), true)];
        assert_eq!(observed(&known, &pods), both);
        list[1].is_learner = true;
        let known = [reported("192.0.2.1", Some(&list), true)];
        assert_eq!(observed(&known, &pods)[1], ("c2".to_owned(), false));
    }

    #[test]
    fn etcd_member_list_of_the_majority_wins() {
        let before = [member("c1", "192.0.2.1"), member("c2", "192.0.2.2")];
        let now = [member("c2", "192.0.2.2")];
        let alone = reported("192.0.2.1", Some(&before), false);
        let known = [alone, reported("192.0.2.2", Some(&now), true)];
        assert_eq!(observed(&known, &[]), [("c2".to_owned(), true)]);
        // Without a majority, what one member knows shows which are missing.
        let alone = reported("192.0.2.1", Some(&before), false);
        let known = [alone, reported("192.0.2.2", None, false)];
        let lost = [("c1".to_owned(), true), ("c2".to_owned(), false)];
        assert_eq!(observed(&known, &[]), lost);
        assert_eq!(observed(&[reported("192.0.2.1", None, false)], &[]), []);
    }
}
