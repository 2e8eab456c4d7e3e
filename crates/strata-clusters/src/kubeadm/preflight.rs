//! What would make an upgrade fail half way, found before it is begun.

use strata_types::cluster::{KubernetesVersion, Member};

use super::api::Api;
use super::objects::{Budget, List, Node, Pod};
use super::observe::{SYSTEM, broken};
use crate::{Blocker, DriverError, Preflight};

/// How many minor versions a kubelet may be behind the API server.
const KUBELET_SKEW: u16 = 3;
/// What counts requests to interfaces that will be gone.
const DEPRECATED: &str = "apiserver_requested_deprecated_apis{";

/// Observes everything. `servers` is each API server by itself: each counts
/// its own requests.
pub(super) async fn preflight(
    api: &Api,
    servers: &[Api],
    members: &[Member],
    from: KubernetesVersion,
    to: KubernetesVersion,
) -> Result<Preflight, DriverError> {
    let nodes: List<Node> = api.get("/api/v1/nodes").await?;
    let pods: List<Pod> = api.get(&format!("{SYSTEM}/pods")).await?;
    let budgets: List<Budget> = api.get("/apis/policy/v1/poddisruptionbudgets").await?;
    let mut removed = Vec::new();
    for server in servers {
        let metrics = server.text("/metrics").await?;
        removed.extend(removed_interfaces(&String::from_utf8_lossy(&metrics), to));
    }
    removed.sort();
    removed.dedup();
    let mut blockers: Vec<Blocker> = versions(from, to).into_iter().collect();
    blockers.extend(unready(&nodes.items, members));
    blockers.extend(nodes.items.iter().filter_map(|node| too_old(node, to)));
    // Pods of a node that has left are swept away a little later.
    let is_there = |pod: &Pod| {
        let mut nodes = nodes.items.iter();
        pod.spec.node_name.is_empty() || nodes.any(|it| it.metadata.name == pod.spec.node_name)
    };
    let pods: Vec<Pod> = pods.items.into_iter().filter(is_there).collect();
    blockers.extend(broken(&pods).into_iter().map(|pod| Blocker {
        what: format!("{pod} does not run"),
        hint: format!(
            "check it: kubectl -n kube-system describe pod {}",
            pod.trim_start_matches("kube-system/")
        ),
    }));
    blockers.extend(budgets.items.iter().filter_map(stuck));
    blockers.extend(removed.into_iter().map(|interface| Blocker {
        what: format!("{interface} is in use, and is gone in {to}"),
        hint: "move who uses it to its successor first".into(),
    }));
    Ok(Preflight { blockers })
}

fn versions(from: KubernetesVersion, to: KubernetesVersion) -> Option<Blocker> {
    let next = from.major == to.major && (from.minor == to.minor || from.minor + 1 == to.minor);
    let what = match (to < from, next) {
        (true, _) => format!("{to} is older than {from}"),
        (false, false) => format!("{to} is not the next minor version after {from}"),
        (false, true) => return None,
    };
    Some(Blocker {
        what,
        hint: "go one minor version at a time".into(),
    })
}

fn unready(nodes: &[Node], members: &[Member]) -> Vec<Blocker> {
    let joined = members.iter().filter(|member| member.joined);
    joined
        .filter_map(|member| {
            let machine = member.machine.as_str();
            let node = nodes.iter().find(|node| node.metadata.name == machine);
            let what = match node {
                Some(node) if node.is_ready() => return None,
                Some(_) => format!("the node {machine} is not ready"),
                None => format!("the node {machine} is not there"),
            };
            let hint = "have it ready again, or take its machine out".into();
            Some(Blocker { what, hint })
        })
        .collect()
}

fn too_old(node: &Node, to: KubernetesVersion) -> Option<Blocker> {
    let version = &node.status.node_info.kubelet_version;
    let kubelet: KubernetesVersion = version.parse().ok()?;
    let fits = kubelet.minor + KUBELET_SKEW >= to.minor && kubelet <= to;
    (!fits).then(|| Blocker {
        what: format!("the kubelet of {} is of {version}", node.metadata.name),
        hint: format!("{to} takes kubelets of at most {KUBELET_SKEW} minor versions before it"),
    })
}

/// A budget that allows nothing would hold up a drain without end.
fn stuck(budget: &Budget) -> Option<Blocker> {
    let status = &budget.status;
    (status.expected_pods > 0 && status.disruptions_allowed <= 0).then(|| Blocker {
        what: format!(
            "the disruption budget {}/{} allows no pod to be moved",
            budget.metadata.namespace, budget.metadata.name
        ),
        hint: "run one pod more than it asks for, or change it".into(),
    })
}

/// Those that were used since the API server started and are gone in `to`.
fn removed_interfaces(metrics: &str, to: KubernetesVersion) -> Vec<String> {
    let lines = metrics.lines().filter(|line| line.starts_with(DEPRECATED));
    lines
        .filter_map(|line| {
            let label = |name: &str| {
                let (_, rest) = line.split_once(&format!("{name}=\""))?;
                rest.split_once('"').map(|(value, _)| value)
            };
            let removed: KubernetesVersion =
                format!("{}.0", label("removed_release")?).parse().ok()?;
            let (group, version) = (label("group")?, label("version")?);
            let resource = label("resource")?;
            let group = match group {
                "" => String::new(),
                group => format!("{group}/"),
            };
            (removed <= to).then(|| format!("{resource} of {group}{version}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preflight_reports_removed_apis() {
        let metrics = r#"# HELP apiserver_requested_deprecated_apis [STABLE] Gauge
apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.35",resource="flowschemas",subresource="",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="x.k8s.io",removed_release="1.36",resource="things",subresource="",version="v1"} 1
"#;
        let to = KubernetesVersion::new(1, 35, 4);
        let found = removed_interfaces(metrics, to);
        assert_eq!(
            found,
            ["flowschemas of flowcontrol.apiserver.k8s.io/v1beta3"]
        );
    }

    #[test]
    fn upgrade_moves_one_minor_version_forward() {
        let v = KubernetesVersion::new;
        assert_eq!(versions(v(1, 34, 4), v(1, 35, 4)), None);
        assert_eq!(versions(v(1, 34, 4), v(1, 34, 9)), None);
        assert!(versions(v(1, 34, 4), v(1, 36, 0)).is_some());
        assert!(versions(v(1, 34, 4), v(1, 34, 3)).is_some());
    }
}
