//! The published API of clusters: by its gateway and by gRPC.

use serde_json::{Value, json};
use strata_api::error_from_status;
use strata_api::kaas::cluster_server::Cluster as _;
use strata_api::kaas::{
    AddNodePoolMsg, ClusterStatus, ControlPlaneMachineSpec, CreateClusterMsg, DeleteClusterMsg,
    DeleteNodePoolMsg, GetClusterListMsg, GetClusterMsg, GetClusterNodesStatusMsg,
    GetUpgradeClusterInformationMsg, GetVersionMsg, KubernetesLabel, MachineSpec, ScaleNodePoolMsg,
    ScaleNodePoolSpec, UpgradeClusterMsg,
};
use strata_types::Role;
use tonic::{Code, Request, Status};

use crate::clusters::ClusterWorld;
use crate::world::{Answer, World, caller};

fn asked(name: &str) -> Value {
    json!({
        "name": name,
        "k8s_version": "v1.34.4",
        "control_plane_nodes": { "count": 1, "instanceType": "standard" },
        "worker_node_pools": [{
            "name": "web",
            "count": 1,
            "labels": [{ "name": "tier", "value": "web" }],
        }],
    })
}

fn status(answer: &Answer) -> Value {
    answer.json()["cluster"]["status"].clone()
}

#[tokio::test]
async fn gateway_covers_the_cluster_lifecycle() {
    let world = ClusterWorld::new().await;
    let none = world.get("/api/v1/cluster/list").await;
    assert_eq!(none.json(), json!({ "ok": true, "clusters": [] }));
    let made = world.post("/api/v1/cluster", &asked("dev")).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert_eq!(made.json()["ok"], true);
    assert_eq!(status(&made), "PROVISIONING");
    // The same again is the same, by the other names of its fields too, and
    // with numbers in texts.
    let camel = json!({
        "name": "dev",
        "k8sVersion": "v1.34.4",
        "controlPlaneNodes": { "count": "1" },
        "workerNodePools": [{ "name": "web", "count": "1",
            "labels": [{ "name": "tier", "value": "web" }] }],
    });
    let same = world.post("/api/v1/cluster/", &camel).await;
    assert_eq!(same.status, 200, "{same:?}");
    let running = |answer: &Answer| status(answer) == "RUNNING";
    let told = world.comes("/api/v1/cluster?name=dev", running).await;
    let told = told.json();
    let kubeconfig = told["cluster"]["kubeconfig"].as_str().unwrap();
    assert!(
        kubeconfig.contains("strata:admin:cluster-admin:1"),
        "{told}"
    );
    let list = world.get("/api/v1/cluster/list").await.json();
    assert_eq!(list["clusters"][0]["status"], "RUNNING", "{list}");

    let nodes = world
        .get("/api/v1/cluster/nodesstatus?clusterName=dev")
        .await;
    let nodes = nodes.json();
    assert_eq!(
        (&nodes["Name"], &nodes["count"]),
        (&json!("dev"), &json!(2))
    );
    assert_eq!(nodes["machines"][0]["k8sNodeStatus"], "Ready", "{nodes}");
    assert_eq!(nodes["machines"][0]["maasIPAddr"], "192.0.2.1", "{nodes}");

    let ends = async |path: &str, expected: usize| {
        let size = |answer: &Answer| answer.json()["count"] == expected;
        world.comes(path, size).await;
        world.comes("/api/v1/cluster?name=dev", running).await;
    };
    let nodes = "/api/v1/cluster/nodesstatus?cluster_name=dev";
    world.get(nodes).await.refused(422, Some("cluster_name"));
    let nodes = "/api/v1/cluster/nodesstatus?clusterName=dev";
    let more = json!({ "clusterName": "dev",
        "worker_node_pools": [{ "name": "more", "count": 1 }] });
    let added = world.post("/api/v1/cluster/pool", &more).await;
    assert_eq!(added.json(), json!({ "ok": true }));
    ends(nodes, 3).await;
    let size = json!({ "clusterName": "dev", "nodePools": [{ "name": "more", "count": 2 }] });
    let scaled = world.put("/api/v1/cluster/pool", &size).await;
    assert_eq!(scaled.json(), json!({ "ok": true }));
    ends(nodes, 4).await;
    let path = "/api/v1/cluster/pool?clusterName=dev&node_pool_names=more";
    assert_eq!(world.delete(path).await.json(), json!({ "ok": true }));
    ends(nodes, 2).await;

    let targets = world.get("/api/v1/cluster/upgrade?name=dev").await.json();
    let versions = json!(["v1.34.6", "v1.35.1"]);
    assert_eq!(targets, json!({ "ok": true, "versions": versions }));
    let up = json!({ "name": "dev", "version": "v1.34.6" });
    let begun = world.put("/api/v1/cluster/upgrade", &up).await;
    assert_eq!(begun.json(), json!({ "ok": true }));
    let gone = world.delete("/api/v1/cluster?name=dev").await.json();
    assert_eq!(gone["ok"], true);
    assert!(
        gone["status"].as_str().unwrap().contains("deleted"),
        "{gone}"
    );
    let over = |answer: &Answer| answer.status == 404;
    world.comes("/api/v1/cluster?name=dev", over).await;
}

#[tokio::test]
async fn gateway_reports_its_version_and_refuses_by_field() {
    let world = ClusterWorld::new().await;
    let told = world.get("/api/v1/version").await.json();
    let build = &told["version_information"];
    assert_eq!(build["git_version"], "1.2.3", "{told}");
    assert_eq!(build["go_version"], "rustc 1.95.0", "{told}");
    assert_eq!(build["compiler"], "rustc", "{told}");

    let bad = |field: &str, value: Value| {
        let mut body = asked("dev");
        body[field] = value;
        body
    };
    for (body, field) in [
        (bad("colour", json!("red")), "colour"),
        (bad("name", json!("Not A Label")), "name"),
        (bad("name", json!(7)), "name"),
        (bad("k8s_version", json!("v1.2.3")), "k8s_version"),
        (
            bad("control_plane_nodes", json!({ "count": 2 })),
            "control_plane_nodes.count",
        ),
        (
            bad("control_plane_nodes", Value::Null),
            "control_plane_nodes.count",
        ),
        (
            bad("worker_node_pools", json!([{ "name": "web", "count": -1 }])),
            "worker_node_pools[0].count",
        ),
        (
            bad(
                "worker_node_pools",
                json!([{ "name": "web", "instanceType": "x" }]),
            ),
            "worker_node_pools[0].instanceType",
        ),
    ] {
        let answer = world.post("/api/v1/cluster", &body).await;
        assert_eq!(answer.status, 422, "{body}: {answer:?}");
        answer.refused(422, Some(field));
    }
    world
        .get("/api/v1/cluster")
        .await
        .refused(422, Some("name"));
    let unknown = "/api/v1/cluster?name=x&colour=red";
    world.get(unknown).await.refused(422, Some("colour"));
    let twice = "/api/v1/cluster?name=x&name=y";
    world.get(twice).await.refused(422, Some("name"));
    world.get("/api/v1/cluster?name=x").await.refused(404, None);
    world
        .delete("/api/v1/cluster?name=x")
        .await
        .refused(404, None);
    let kind = ("content-type", "application/json");
    let admin = || caller(Role::Admin);
    let path = "/api/v1/cluster";
    let broken = world.ask(admin(), "POST", path, &[kind], "{").await;
    broken.refused(400, Some("body"));
    let plain = world.ask(admin(), "POST", path, &[], "{}").await;
    plain.refused(415, Some("Content-Type"));
    let wrong = world.ask(admin(), "PATCH", path, &[kind], "{}").await;
    assert_eq!(wrong.status, 405, "{wrong:?}");
    let viewer = world
        .ask(
            caller(Role::Viewer),
            "GET",
            "/api/v1/cluster?name=x",
            &[],
            "",
        )
        .await;
    viewer.refused(403, None);
    assert_eq!(world.get("/cluster").await.json(), json!([]));
}

fn by<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(caller(Role::Operator));
    request
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, field: Option<&str>) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), code, "{status:?}");
    assert_eq!(error_from_status(&status).field(), field, "{status:?}");
}

fn spec(name: &str, count: i32, labels: &[&str]) -> MachineSpec {
    let label = |name: &&str| KubernetesLabel {
        name: (*name).into(),
        value: "x".into(),
    };
    MachineSpec {
        name: name.into(),
        labels: labels.iter().map(label).collect(),
        instance_type: String::new(),
        count,
    }
}

#[tokio::test]
async fn every_rpc_answers_and_refuses_as_published() {
    let world = ClusterWorld::new().await;
    let service = &world.service;
    let create = |name: &str, version: &str, count: i32, pools: Vec<MachineSpec>| {
        by(CreateClusterMsg {
            name: name.into(),
            k8s_version: version.into(),
            control_plane_nodes: Some(ControlPlaneMachineSpec {
                count,
                ..Default::default()
            }),
            worker_node_pools: pools,
        })
    };
    let bad = Code::InvalidArgument;
    for (request, field) in [
        (create("", "1.34", 1, vec![]), "name"),
        (create("dev", "new", 1, vec![]), "k8s_version"),
        (create("dev", "9.9", 1, vec![]), "k8s_version"),
        (
            create("dev", "1.34", 0, vec![]),
            "control_plane_nodes.count",
        ),
        (
            create("dev", "1.34", -1, vec![]),
            "control_plane_nodes.count",
        ),
        (
            create("dev", "1.34", 1, vec![spec("a", 1, &["l", "l"])]),
            "worker_node_pools[0].labels[1].name",
        ),
        (
            create("dev", "1.34", 1, vec![spec("a", 1, &[]), spec("a", 1, &[])]),
            "worker_node_pools[1].name",
        ),
    ] {
        refused(service.create_cluster(request).await, bad, Some(field));
    }
    let much = create("dev", "1.34.4", 1, vec![spec("a", 6, &[])]);
    let much = service.create_cluster(much).await.unwrap_err();
    assert_eq!(much.code(), Code::ResourceExhausted, "{much:?}");

    let made = create("dev", "1.34.4", 1, vec![spec("a", 1, &["tier"])]);
    let made = service.create_cluster(made).await.unwrap().into_inner();
    assert!(made.ok);
    assert_eq!(made.cluster.unwrap().status(), ClusterStatus::Provisioning);
    let other = create("dev", "1.34.4", 3, vec![]);
    refused(
        service.create_cluster(other).await,
        Code::AlreadyExists,
        Some("name"),
    );
    let get = |name: &str| by(GetClusterMsg { name: name.into() });
    let early = service.get_cluster(get("dev")).await.unwrap().into_inner();
    assert_eq!(early.cluster.unwrap().kubeconfig, "");
    let running = |answer: &Answer| answer.json()["status"] == "RUNNING";
    world.comes("/cluster/dev", running).await;
    let told = service.get_cluster(get("dev")).await.unwrap().into_inner();
    let told = told.cluster.unwrap();
    assert_eq!(told.status(), ClusterStatus::Running);
    assert!(told.kubeconfig.contains("strata:operator:cluster-admin:1"));
    let all = service.get_cluster_list(by(GetClusterListMsg {})).await;
    assert_eq!(all.unwrap().into_inner().clusters.len(), 1);
    pools(&world).await;
    ends(&world).await;
}

async fn pools(world: &ClusterWorld) {
    let service = &world.service;
    let bad = Code::InvalidArgument;
    let add = |cluster: &str, pools: Vec<MachineSpec>| {
        by(AddNodePoolMsg {
            cluster_name: cluster.into(),
            worker_node_pools: pools,
        })
    };
    refused(
        service.add_node_pool(add("dev", vec![])).await,
        bad,
        Some("worker_node_pools"),
    );
    let both = vec![spec("b", 1, &[]), spec("a", 1, &[])];
    let field = Some("worker_node_pools[1].name");
    refused(
        service.add_node_pool(add("dev", both)).await,
        Code::AlreadyExists,
        field,
    );
    let one = || vec![spec("b", 1, &[])];
    refused(
        service.add_node_pool(add("", one())).await,
        bad,
        Some("clusterName"),
    );
    refused(
        service.add_node_pool(add("none", one())).await,
        Code::NotFound,
        None,
    );
    let scale = |name: &str, count| {
        by(ScaleNodePoolMsg {
            cluster_name: "dev".into(),
            node_pools: vec![ScaleNodePoolSpec {
                name: name.into(),
                count,
            }],
        })
    };
    let field = Some("node_pools[0].count");
    refused(service.scale_node_pool(scale("a", -1)).await, bad, field);
    let field = Some("node_pools[0].name");
    refused(
        service.scale_node_pool(scale("none", 1)).await,
        Code::NotFound,
        field,
    );
    let delete = |names: &[&str]| {
        by(DeleteNodePoolMsg {
            cluster_name: "dev".into(),
            node_pool_names: names.iter().map(ToString::to_string).collect(),
        })
    };
    refused(
        service.delete_node_pool(delete(&[])).await,
        bad,
        Some("node_pool_names"),
    );
    let none = service.delete_node_pool(delete(&["a", "none"])).await;
    assert_eq!(none.unwrap_err().code(), Code::NotFound);
    assert!(
        service
            .scale_node_pool(scale("a", 2))
            .await
            .unwrap()
            .into_inner()
            .ok
    );
    let nodes = GetClusterNodesStatusMsg {
        cluster_name: "dev".into(),
    };
    world
        .comes("/cluster/dev/node", |answer| {
            let nodes = answer.json();
            let nodes = nodes.as_array().unwrap();
            nodes.len() == 3 && nodes.iter().all(|node| node["status"] == "Ready")
        })
        .await;
    let nodes = service.get_cluster_nodes_status(by(nodes)).await.unwrap();
    let nodes = nodes.into_inner();
    assert_eq!((nodes.name.as_str(), nodes.count), ("dev", 3));
    for machine in nodes.machines {
        assert_eq!(machine.maas_hostname, machine.maas_system_id);
        assert_eq!(machine.maas_node_status, "UP");
        assert_eq!(machine.k8s_version, "v1.34.4");
    }
}

async fn ends(world: &ClusterWorld) {
    let service = &world.service;
    let targets = |name: &str| by(GetUpgradeClusterInformationMsg { name: name.into() });
    let found = service
        .get_upgrade_cluster_information(targets("dev"))
        .await;
    let found = found.unwrap().into_inner();
    assert_eq!((found.ok, found.versions.len()), (true, 2));
    let none = service
        .get_upgrade_cluster_information(targets("none"))
        .await;
    refused(none, Code::NotFound, None);
    let upgrade = |version: &str| {
        by(UpgradeClusterMsg {
            name: "dev".into(),
            version: version.into(),
        })
    };
    for bad in ["9.9", ""] {
        let answer = service.upgrade_cluster(upgrade(bad)).await;
        refused(answer, Code::InvalidArgument, Some("version"));
    }
    assert!(
        service
            .upgrade_cluster(upgrade("1.35"))
            .await
            .unwrap()
            .into_inner()
            .ok
    );
    let newest = |answer: &Answer| {
        let told = answer.json();
        told["status"] == "RUNNING" && told["version"] == "v1.35.1"
    };
    world.comes("/cluster/dev", newest).await;
    let found = service
        .get_upgrade_cluster_information(targets("dev"))
        .await;
    let found = found.unwrap().into_inner();
    assert_eq!((found.ok, found.versions.len()), (false, 0));
    let build = service.get_version_information(by(GetVersionMsg {})).await;
    let build = build.unwrap().into_inner();
    assert_eq!(build.version_information.unwrap().git_version, "1.2.3");
    let delete = |name: &str| by(DeleteClusterMsg { name: name.into() });
    refused(
        service.delete_cluster(delete("none")).await,
        Code::NotFound,
        None,
    );
    let gone = service
        .delete_cluster(delete("dev"))
        .await
        .unwrap()
        .into_inner();
    assert!(gone.ok && !gone.status.is_empty(), "{gone:?}");
    world
        .comes("/cluster/dev", |answer| answer.status == 404)
        .await;
    let over = by(GetClusterMsg { name: "dev".into() });
    refused(service.get_cluster(over).await, Code::NotFound, None);
}

#[tokio::test]
async fn missing_bundle_has_a_hint() {
    let world = World::new().await;
    let answer = world.post("/api/v1/cluster", &asked("dev")).await;
    let problem = answer.refused(422, Some("k8s_version"));
    let hint = problem["hint"].as_str().unwrap();
    assert!(hint.contains("make kubernetes"), "{problem}");
}
