//! How a cluster looks from outside, with a few questions to its API that are
//! asked at once.

use std::collections::BTreeMap;
use std::time::Duration;

use strata_types::cluster::{ClusterRole, Member};

use super::api::{Api, ApiError};
use super::objects::{List, Node, Pod, Version};
use crate::{Observed, SeenNode};

/// All in all: one server that is silent is waited for, and another asked.
const BOUND: Duration = Duration::from_secs(6);
/// Pods may be not ready for so long before it is told.
const A_WHILE_MS: i64 = 45_000;
/// Whoever scales down takes these first.
const MARK: &str = "cluster.k8s.io/delete-machine";
pub(super) const SYSTEM: &str = "/api/v1/namespaces/kube-system";

/// Looks once.
pub(super) async fn observe(api: &Api, members: &[Member]) -> Observed {
    let pods = format!("{SYSTEM}/pods");
    let asked = async {
        tokio::join!(
            api.text("/readyz"),
            api.get::<Version>("/version"),
            api.get::<List<Node>>("/api/v1/nodes"),
            api.get::<List<Pod>>(&pods),
        )
    };
    let Ok((ready, version, nodes, pods)) = tokio::time::timeout(BOUND, asked).await else {
        return Observed {
            why: format!("no answer within {BOUND:?}"),
            ..Observed::default()
        };
    };
    let nodes = nodes.map(|list| list.items).unwrap_or_default();
    let pods = pods.map(|list| list.items).unwrap_or_default();
    Observed {
        serves: ready.is_ok(),
        why: ready.err().map(|error| why(&error)).unwrap_or_default(),
        version: version.map(|it| it.git_version).unwrap_or_default(),
        etcd: etcd(&pods, members),
        broken_pods: broken_for_long(&pods, jiff::Timestamp::now().as_millisecond()),
        nodes: nodes.iter().map(seen).collect(),
    }
}

fn why(error: &ApiError) -> String {
    match error {
        ApiError::Silent(_) => format!("its API does not answer: {error}"),
        ApiError::Answered { .. } => format!("its API is not ready: {error}"),
    }
}

/// A node, in our words.
pub(super) fn seen(node: &Node) -> SeenNode {
    let ready = node.is_ready();
    let reason = match node.readiness() {
        _ if ready => String::new(),
        Some(condition) => format!("{}: {}", condition.reason, condition.message),
        None => "it has not said so yet".into(),
    };
    SeenNode {
        name: node.metadata.name.clone(),
        ready,
        reason,
        version: node.status.node_info.kubelet_version.clone(),
        unschedulable: node.spec.unschedulable,
        marked: node.metadata.annotations.contains_key(MARK),
    }
}

/// By the pod of each member: its readiness is etcd's own answer.
fn etcd(pods: &[Pod], members: &[Member]) -> BTreeMap<String, bool> {
    let ready = |machine: &str| {
        let name = format!("etcd-{machine}");
        let pod = pods.iter().find(|pod| pod.metadata.name == name);
        pod.is_some_and(Pod::is_ready)
    };
    if pods.is_empty() {
        return BTreeMap::new();
    }
    members
        .iter()
        .filter(|member| member.joined && member.role == ClusterRole::ControlPlane)
        .map(|member| member.machine.as_str())
        .map(|machine| (machine.to_owned(), ready(machine)))
        .collect()
}

/// Those of the system that should run and have not for a while: whoever was
/// started just now, or is started again, is not worth a word.
fn broken_for_long(pods: &[Pod], now_ms: i64) -> Vec<String> {
    let lasts = |pod: &&Pod| {
        let since = pod.unready_since_ms();
        is_broken(pod) && since.is_none_or(|since| now_ms - since >= A_WHILE_MS)
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
