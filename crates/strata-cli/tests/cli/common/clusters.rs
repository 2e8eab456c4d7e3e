//! Clusters of the fake: one that is half-way, and one that runs.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use strata_api::rest::{
    Cluster, ClusterNode, ClusterPlan, ClusterRole, ClusterSnapshot, ClusterStatus, ControlPlane,
    InstanceType, Kubeconfig, KubernetesBundle, NodePool, PlannedMachine, PoolStatus,
    UpgradeBlocker, UpgradePlan, UpgradeStep,
};

use super::data::NOW_MS;
use super::objects::Objects;
use super::operations;
use super::rest::{Query, answer, find, is, problem, told};

pub const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: dev
  cluster:
    server: https://127.0.0.1:7800
users:
- name: \"strata:me:1\"
  user:
    client-key-data: S0VZ
contexts:
- name: \"strata:me:1@dev\"
  context:
    cluster: dev
    user: \"strata:me:1\"
current-context: \"strata:me:1@dev\"
";

fn cluster(name: &str, status: ClusterStatus, message: &str) -> Cluster {
    Cluster {
        name: name.into(),
        version: "v1.34.4".into(),
        status,
        message: message.into(),
        server: "https://127.0.0.1:7800".into(),
        control_plane: ControlPlane {
            count: 1,
            instance_type: InstanceType::Standard,
            labels: [].into(),
            pod_security: None,
        },
        pools: vec![NodePool {
            name: "web".into(),
            count: 2,
            instance_type: InstanceType::Standard,
            labels: [("tier".to_owned(), "web".to_owned())].into(),
        }],
        ready: 3,
        machines: 3,
        operation: operations::ACTIVE.into(),
        created_at_ms: NOW_MS - 3_600_000,
    }
}

pub fn clusters() -> Vec<Cluster> {
    let why = "m3 is NotReady: its kubelet is silent\u{1b}[2J; it is replaced in 3 min";
    let mut prod = cluster("prod", ClusterStatus::Degraded, why);
    prod.control_plane.count = 3;
    (prod.ready, prod.machines) = (4, 5);
    vec![prod, cluster("dev", ClusterStatus::Running, "")]
}

fn nodes() -> Vec<ClusterNode> {
    let node = |machine: &str, role, pool: &str, status: &str| ClusterNode {
        machine: machine.into(),
        role,
        pool: pool.into(),
        status: status.into(),
        version: "v1.34.4".into(),
        phase: "UP".into(),
        address: "10.42.0.9".into(),
        message: String::new(),
    };
    let mut lost = node("m3", ClusterRole::Worker, "web", "NotReady");
    lost.message = "its kubelet is silent".into();
    vec![
        node("m1", ClusterRole::ControlPlane, "", "Ready"),
        node("m2", ClusterRole::Worker, "web", "Ready"),
        lost,
    ]
}

fn pools() -> Vec<PoolStatus> {
    vec![PoolStatus {
        name: "web".into(),
        count: 2,
        ready: 1,
        instance_type: InstanceType::Standard,
        labels: [("tier".to_owned(), "web".to_owned())].into(),
        machines: vec!["m2".into(), "m3".into()],
    }]
}

fn planned(machine: &str, role: ClusterRole, pool: &str, why: &str) -> PlannedMachine {
    PlannedMachine {
        machine: machine.into(),
        role,
        pool: pool.into(),
        why: why.into(),
    }
}

fn upgrade(blocked: bool) -> UpgradePlan {
    let step = |machine: &str, role, drain| UpgradeStep {
        machine: machine.into(),
        role,
        from: "v1.34.4".into(),
        drain,
    };
    let blocker = UpgradeBlocker {
        what: "the budget default/db allows no disruption".into(),
        hint: "let it allow one, or scale what it guards".into(),
    };
    UpgradePlan {
        from: "v1.34.4".into(),
        to: "v1.35.1".into(),
        steps: vec![
            step("m1", ClusterRole::ControlPlane, false),
            step("m2", ClusterRole::Worker, true),
        ],
        blockers: blocked.then_some(blocker).into_iter().collect(),
    }
}

fn snapshots() -> Vec<ClusterSnapshot> {
    vec![ClusterSnapshot {
        id: "20260131T110000".into(),
        at_ms: NOW_MS - 3_600_000,
        size: 5 << 20,
        version: "v1.34.4".into(),
        reason: "before the upgrade to v1.35.1".into(),
    }]
}

fn bundles() -> Vec<KubernetesBundle> {
    let bundle = |version: &str| KubernetesBundle {
        version: version.into(),
        etcd: "3.6.6-0".into(),
        coredns: "v1.12.1".into(),
    };
    vec![bundle("v1.34.4"), bundle("v1.35.1")]
}

/// `/cluster/…` and `/kubernetes`.
pub fn serve(
    objects: &mut Objects,
    (method, path, query, body): (&Method, &[&str], &Query<'_>, &[u8]),
) -> Option<Response> {
    let dry = is(query, "dryRun").is_some();
    let begun = |objects: &mut Objects, verb: &str, name: &str| {
        operations::begun(
            objects,
            &format!("cluster-{verb}"),
            &format!("cluster/{name}"),
        )
    };
    if let [_, name, ..] = path
        && path[0] == "cluster"
        && let Err(error) = find(&objects.clusters, name, query)
    {
        return Some(problem(&error));
    }
    Some(match path {
        ["kubernetes"] => told(&bundles()),
        ["cluster"] if *method == Method::PUT && dry => {
            let worker = ClusterRole::Worker;
            told(&ClusterPlan {
                add: vec![
                    planned(
                        "m1",
                        ClusterRole::ControlPlane,
                        "",
                        "the smallest that fits",
                    ),
                    planned("m2", worker, "workers", "the next by its id"),
                ],
                remove: Vec::new(),
            })
        }
        ["cluster"] if *method == Method::PUT => {
            let asked: Value = serde_json::from_slice(body).unwrap();
            let name = asked["name"].as_str().unwrap().to_owned();
            operations::several(objects, "cluster-create", &format!("cluster/{name}"))
        }
        ["cluster", name] if *method == Method::DELETE => begun(objects, "delete", name),
        ["cluster", _, "node"] => told(&nodes()),
        ["cluster", _, "pool"] if *method == Method::GET => told(&pools()),
        ["cluster", _, "pool", ..] if dry => told(&ClusterPlan {
            add: Vec::new(),
            remove: vec![planned("m3", ClusterRole::Worker, "web", "it is NotReady")],
        }),
        ["cluster", name, "pool", ..] => begun(objects, "scale", name),
        ["cluster", name, "upgrade"] if *method == Method::GET => match is(query, "version") {
            Some(_) => told(&upgrade(*name == "prod")),
            None => told(&json!({ "versions": ["v1.35.1"] })),
        },
        ["cluster", _, "kubeconfig"] if *method == Method::DELETE => {
            StatusCode::NO_CONTENT.into_response()
        }
        ["cluster", _, "kubeconfig"] => told(&Kubeconfig {
            kubeconfig: KUBECONFIG.into(),
            user: "strata:me:1".into(),
            expires_at_ms: NOW_MS + 43_200_000,
        }),
        ["cluster", _, "snapshot"] if *method == Method::GET => told(&snapshots()),
        ["cluster", name, verb] => begun(objects, verb, name),
        ["cluster", rest @ ..] => {
            let name = rest.first().copied().unwrap_or_default();
            answer(&mut objects.clusters, method, name, query, body)
        }
        _ => return None,
    })
}
