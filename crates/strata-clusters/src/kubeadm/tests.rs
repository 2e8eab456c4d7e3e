//! The driver against an API server that is simulated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::fake::{FakeApi, FakeExec, VERSION, cluster, driver};
use crate::catalogue::Bundle;
use crate::{Drained, Driver as _, DriverError};

fn node(name: &str, ready: &str) -> Value {
    json!({
        "metadata": {"name": name, "annotations": {"cluster.k8s.io/delete-machine": ""}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletNotReady", "message": "no network"}],
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
        },
    })
}

fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for (key, value) in more.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    pod
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

#[tokio::test]
async fn observation_follows_the_api() {
    let facts = cluster(&["c1", "w1"]);
    let api = FakeApi::new(&facts.secrets, |line, _| match line {
        "GET /readyz" => (200, json!("ok")),
        "GET /version" => (200, json!({"gitVersion": "v1.34.4"})),
        "GET /api/v1/nodes" => (
            200,
            json!({"items": [node("c1", "True"), node("w1", "False")]}),
        ),
        "GET /api/v1/namespaces/kube-system/pods" => {
            let mut sick = pod("coredns-1", &json!({"namespace": "kube-system"}));
            sick["status"]["conditions"][0]["status"] = json!("False");
            let fresh = json!({"namespace": "kube-system", "creationTimestamp": now()});
            let mut fresh = pod("coredns-2", &fresh);
            fresh["status"] = json!({"phase": "Pending"});
            (
                200,
                json!({"items": [pod("etcd-c1", &json!({})), sick, fresh]}),
            )
        }
        _ => (404, json!({})),
    })
    .await;
    let seen = driver(FakeExec::ending_with(0), &api).observe(&facts).await;
    assert!(seen.serves, "{seen:?}");
    assert_eq!(seen.version, "v1.34.4");
    assert!(seen.nodes[0].ready && seen.nodes[0].unschedulable && seen.nodes[0].marked);
    assert_eq!(seen.nodes[1].reason, "KubeletNotReady: no network");
    assert_eq!(seen.etcd, [].into(), "nobody could tell");
    assert_eq!(seen.broken_pods, ["kube-system/coredns-1"]);
}

#[tokio::test]
async fn cluster_without_a_node_list_is_not_serving() {
    let facts = cluster(&["c1"]);
    let api = FakeApi::new(&facts.secrets, |line, _| match line {
        "GET /api/v1/nodes" => (500, json!({"message": "etcd: request timed out"})),
        _ => (200, json!({})),
    })
    .await;
    let seen = driver(FakeExec::ending_with(0), &api).observe(&facts).await;
    assert!(!seen.serves, "{seen:?}");
    let begin = "its API answers, but not about its nodes: ";
    assert!(seen.why.starts_with(begin), "{}", seen.why);
}

#[tokio::test]
async fn cluster_of_another_ca_is_rejected() {
    let facts = cluster(&["c1"]);
    let other = cluster(&["c1"]);
    let api = FakeApi::new(&other.secrets, |_, _| (200, json!("ok"))).await;
    let seen = driver(FakeExec::ending_with(0), &api).observe(&facts).await;
    assert!(!seen.serves, "{seen:?}");
    assert!(seen.why.contains("does not answer"), "{}", seen.why);
    assert_eq!(api.asked(), [""; 0]);
}

#[tokio::test]
async fn drain_evicts_pods_and_waits_for_disruption_budgets() {
    static FREE: AtomicBool = AtomicBool::new(false);
    let facts = cluster(&["c1", "w1"]);
    let api = FakeApi::new(&facts.secrets, |line, body| {
        let free = FREE.load(Ordering::Relaxed);
        match line {
            "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dw1" if free => {
                (200, json!({"items": null}))
            }
            "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dw1" => (
                200,
                json!({"items": [
                    pod("web", &json!({})),
                    pod("going", &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})),
                    pod("daemon", &json!({"ownerReferences": [{"kind": "DaemonSet"}]})),
                    pod("static", &json!({"annotations": {"kubernetes.io/config.mirror": "x"}})),
                ]}),
            ),
            "POST /api/v1/namespaces/default/pods/web/eviction" => {
                assert_eq!(body["kind"], "Eviction");
                (429, json!({"message": "it would violate the budget"}))
            }
            _ => (404, json!({})),
        }
    })
    .await;
    let driver = driver(FakeExec::ending_with(0), &api);
    let way = driver.api(&facts).unwrap();
    let short = Duration::from_millis(600);
    let drained = super::drain::drain_within(&way, "w1", short).await.unwrap();
    let left = ["default/web", "default/going"].map(str::to_owned).to_vec();
    assert_eq!(drained, Drained::Waiting(left));
    let evicted: Vec<_> = api
        .asked()
        .into_iter()
        .filter(|line| line.starts_with("POST"))
        .collect();
    assert!(
        evicted.iter().all(|line| line.contains("/web/")),
        "{evicted:?}"
    );
    FREE.store(true, Ordering::Relaxed);
    assert_eq!(driver.drain(&facts, "w1").await.unwrap(), Drained::Empty);
}

#[tokio::test]
async fn bootstrap_token_is_deleted_after_the_join() {
    for code in [0, 1] {
        let facts = cluster(&["c1", "w1"]);
        let api = FakeApi::new(&facts.secrets, |line, _| match line {
            "GET /api/v1/nodes/w1" => (200, node("w1", "True")),
            _ => (200, json!({})),
        })
        .await;
        let remote_exec = FakeExec::ending_with(code);
        let driver = driver(remote_exec.clone(), &api);
        let joined = driver.join(&facts, &facts.members[1], &|_| ()).await;
        let asked = api.asked();
        let token = api.body_of("POST /api/v1/namespaces/kube-system/secrets");
        let name = token["metadata"]["name"].as_str().unwrap();
        let deleted = format!("DELETE /api/v1/namespaces/kube-system/secrets/{name}");
        assert!(asked.contains(&deleted), "{asked:?}");
        assert_eq!(token["stringData"]["description"], "lets w1 join");
        let secret = token["stringData"]["token-secret"].as_str().unwrap();
        let ran = remote_exec.ran.lock().unwrap().join("\n");
        assert!(!ran.contains(secret), "no secret is in a command: {ran}");
        match code {
            0 => {
                joined.unwrap();
                let ready = driver.ready(&facts, &facts.members[1], &|_| ());
                ready.await.unwrap();
                let change = api.body_of("PATCH /api/v1/nodes/w1");
                assert_eq!(change["metadata"]["labels"]["tier"], "one");
            }
            _ => assert!(
                matches!(joined, Err(DriverError::Failed { what, .. }) if what == "kubeadm join")
            ),
        }
    }
}

#[tokio::test]
async fn init_prints_no_bootstrap_token_into_its_log() {
    let facts = cluster(&["c1"]);
    let api = FakeApi::new(&facts.secrets, |_, _| (200, json!({}))).await;
    let remote_exec = FakeExec::ending_with(0);
    let driver = driver(remote_exec.clone(), &api);
    let bundle = Bundle {
        version: VERSION,
        etcd: "3.6.6-0".into(),
        coredns: "v1.12.1".into(),
        pause: "3.10.1".into(),
        images: Vec::new(),
        dir: "/nowhere".into(),
    };
    let first = driver.entry(&facts, &facts.members[0], &|_| ());
    let way = driver.api(&facts).unwrap();
    first.init(&way, &bundle).await.unwrap();
    let ran = remote_exec.ran.lock().unwrap();
    let mut lines = ran.iter().filter(|line| line.contains("with-config init"));
    let line = lines.next().unwrap();
    assert!(line.ends_with(" --skip-token-print"), "{line}");
    // The script passes the option on.
    let script = include_str!("scripts/with-config");
    assert!(script.contains("kubeadm \"$@\" --config"), "{script}");
}

#[tokio::test]
async fn kubelet_stops_before_the_node_is_removed() {
    let facts = cluster(&["c1", "w1"]);
    let api = FakeApi::new(&facts.secrets, |_, _| (200, json!({}))).await;
    let remote_exec = FakeExec::ending_with(0);
    let driver = driver(remote_exec.clone(), &api);
    driver
        .remove_member(&facts, &facts.members[1])
        .await
        .unwrap();
    let ended = ["w1: stop with-config", "w1: stop kubelet"];
    assert_eq!(*remote_exec.ran.lock().unwrap(), ended);
    assert_eq!(api.asked(), ["DELETE /api/v1/nodes/w1"]);
}

#[tokio::test]
async fn role_binding_is_replaced_for_another_role() {
    let facts = cluster(&["c1"]);
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let of_default = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let one = "/strata%3Aada";
    let api = FakeApi::new(&facts.secrets, move |line, _| {
        if line == format!("GET {path}{one}") {
            return (200, json!({"roleRef": {"name": "view"}}));
        }
        (200, json!({}))
    })
    .await;
    let driver = driver(FakeExec::ending_with(0), &api);
    driver
        .grant_access(&facts, "ada", Some("view"))
        .await
        .unwrap();
    driver
        .grant_access(&facts, "ada", Some("cluster-admin"))
        .await
        .unwrap();
    driver.grant_access(&facts, "ada", None).await.unwrap();
    let expected = [
        format!("GET {path}{one}"),
        format!("GET {path}{one}"),
        format!("DELETE {path}{one}"),
        format!("POST {path}"),
        format!("DELETE {of_default}{one}"),
        format!("DELETE {path}{one}"),
    ];
    assert_eq!(api.asked(), expected);
    assert_eq!(api.body_of("POST")["roleRef"]["name"], "cluster-admin");
}

#[tokio::test]
async fn next_api_server_is_tried_when_one_is_silent() {
    let facts = cluster(&["c1"]);
    let api = FakeApi::new(&facts.secrets, |_, _| (200, json!("ok"))).await;
    let driver = driver(FakeExec::ending_with(0), &api);
    let way = driver.api(&facts).unwrap();
    // Nothing listens on a port that was just released.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = closed.local_addr().unwrap().to_string();
    drop(closed);
    let way = way.over(vec![silent, api.address.to_string()]);
    way.text("/readyz").await.unwrap();
    assert_eq!(api.asked(), ["GET /readyz"]);
}

#[test]
fn kubeconfig_names_the_user_without_groups() {
    let facts = cluster(&["c1"]);
    let text = super::access::kubeconfig(&facts, "ada", "192.0.2.1:7800", 3600).unwrap();
    let text = text.expose();
    for line in [
        "    server: https://192.0.2.1:7800",
        "    tls-server-name: kubernetes",
        "- name: \"ada\"",
        "current-context: \"ada@blue\"",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}
