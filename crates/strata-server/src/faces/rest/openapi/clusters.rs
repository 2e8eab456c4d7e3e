//! What can be done with clusters, and what is sent for it.

use serde_json::{Map, Value, json};
use strata_api::rest::{
    Cluster, ClusterNode, ClusterPlan, ClusterSnapshot, Kubeconfig, KubeconfigRequest,
    KubernetesBundle, NewCluster, NodePool, PodSecurityLevel, PoolStatus, RestoreCluster,
    ScalePool, UpgradePlan, UpgradeRequest, UpgradeTargets,
};
use utoipa::OpenApi;

use super::operation::Operation;
use super::schemas::{say, set};

const NAME: &str = "Its name.";
const POOL: &str = "The name of the pool.";
const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

/// A path, and what each verb does there.
type Path = (&'static str, Vec<(&'static str, Operation)>);

fn looked(name: &str, says: &str) -> Operation {
    Operation::new("cluster", name, says)
}

/// Something long that is begun, and for which `Idempotency-Key` counts.
fn begun(name: &str, says: &str) -> Operation {
    looked(name, says).takes(&["Idempotency-Key"])
}

/// Clusters, and the versions that they can have.
pub(super) fn paths() -> Vec<Path> {
    let list = looked("listClusters", "Those there are")
        .takes(&["limit", "offset", "watch"])
        .lists("Cluster");
    let create = begun("createCluster", "Make one")
        .takes(&["dryRun"])
        .body("NewCluster")
        .begins("Operation")
        .plans("ClusterPlan")
        .if_there_is_any();
    let show = looked("getCluster", "One of them")
        .one(NAME)
        .takes(&["watch"])
        .tells_on("Cluster");
    let delete = begun("deleteCluster", "Delete it with all that runs in it")
        .one(NAME)
        .no_body()
        .begins("Operation");
    let nodes = looked("listClusterNodes", "Its machines and their nodes")
        .one(NAME)
        .enumerates("ClusterNode");
    let versions = looked("listKubernetesVersions", "What can be installed here")
        .takes(&["limit", "offset"])
        .enumerates("KubernetesBundle");
    let mut all = vec![
        ("/cluster/", vec![("get", list), ("put", create)]),
        ("/cluster/{id}", vec![("get", show), ("delete", delete)]),
        ("/cluster/{id}/node", vec![("get", nodes)]),
        ("/kubernetes/", vec![("get", versions)]),
    ];
    all.extend(pools());
    all.extend(access());
    all.extend(care());
    all
}

fn pools() -> Vec<Path> {
    let list = looked("listPools", "Its pools")
        .one(NAME)
        .enumerates("PoolStatus");
    let add = begun("addPool", "Add a pool")
        .one(NAME)
        .body("NodePool")
        .begins("Operation")
        .if_there_is_any();
    let scale = begun("scalePool", "Give a pool so many machines")
        .part("pool", POOL)
        .one(NAME)
        .takes(&["dryRun"])
        .body("ScalePoolPatch")
        .begins("Operation")
        .plans("ClusterPlan")
        .if_there_is_any();
    let delete = begun(
        "deletePool",
        "Take a pool away, its machines are given back",
    )
    .part("pool", POOL)
    .one(NAME)
    .no_body()
    .begins("Operation");
    vec![
        ("/cluster/{id}/pool", vec![("get", list), ("put", add)]),
        (
            "/cluster/{id}/pool/{pool}",
            vec![("patch", scale), ("delete", delete)],
        ),
    ]
}

/// Who is let in.
fn access() -> Vec<Path> {
    let kubeconfig = looked("createKubeconfig", "Credentials that end by themselves")
        .one(NAME)
        .body("KubeconfigRequest")
        .tells("Kubeconfig")
        .unless_it_rests();
    let revoke = looked("revokeKubeconfig", "Make all credentials of one worthless")
        .one(NAME)
        .takes(&["user"])
        .no_body()
        .forgets()
        .unless_it_rests();
    vec![(
        "/cluster/{id}/kubeconfig",
        vec![("post", kubeconfig), ("delete", revoke)],
    )]
}

/// Upgrades, and what is kept for bad days.
fn care() -> Vec<Path> {
    let plan = looked(
        "planUpgrade",
        "Where it can go; with a version, what going there would be",
    )
    .one(NAME)
    .takes(&["version"])
    .tells_either("UpgradeTargets", "UpgradePlan")
    .unless_it_rests();
    let upgrade = begun("upgradeCluster", "Bring it to a version")
        .one(NAME)
        .body("UpgradeRequest")
        .begins("Operation");
    let snapshots = looked("listClusterSnapshots", "What is kept of its state")
        .one(NAME)
        .enumerates("ClusterSnapshot");
    let snapshot = begun("snapshotCluster", "Keep its state")
        .one(NAME)
        .no_body()
        .begins("Operation");
    let restore = begun("restoreCluster", "Put it back to a snapshot")
        .one(NAME)
        .body("RestoreCluster")
        .begins("Operation");
    vec![
        (
            "/cluster/{id}/upgrade",
            vec![("get", plan), ("post", upgrade)],
        ),
        (
            "/cluster/{id}/snapshot",
            vec![("get", snapshots), ("post", snapshot)],
        ),
        ("/cluster/{id}/restore", vec![("post", restore)]),
    ]
}

#[derive(OpenApi)]
#[openapi(components(schemas(
    Cluster,
    ClusterNode,
    ClusterPlan,
    ClusterSnapshot,
    Kubeconfig,
    KubeconfigRequest,
    KubernetesBundle,
    NewCluster,
    NodePool,
    PoolStatus,
    PodSecurityLevel,
    RestoreCluster,
    ScalePool,
    UpgradePlan,
    UpgradeRequest,
    UpgradeTargets,
)))]
struct Generated;

/// What people send; nothing else is taken.
const SENT: [&str; 7] = [
    "ControlPlane",
    "KubeconfigRequest",
    "NewCluster",
    "NodePool",
    "RestoreCluster",
    "ScalePoolPatch",
    "UpgradeRequest",
];

/// Adds the schemas to the others.
pub(super) fn add(all: &mut Map<String, Value>) {
    let generated = serde_json::to_value(Generated::openapi()).unwrap_or_default();
    if let Some(Value::Object(ours)) = generated.pointer("/components/schemas") {
        all.extend(ours.clone());
    }
    let scale = all.remove("ScalePool").unwrap_or_default();
    all.insert("ScalePoolPatch".into(), scale);
    for name in SENT {
        set(all, name, "/additionalProperties", json!(false));
    }
    let most = json!({ "minimum": 0, "maximum": 200 });
    say(all, "NodePool", "count", &most);
    say(all, "ScalePoolPatch", "count", &most);
    say(all, "ControlPlane", "count", &json!({ "enum": [1, 3, 5] }));
    let label = json!({ "pattern": LABEL, "maxLength": 63 });
    say(all, "NodePool", "name", &label);
    say(
        all,
        "NewCluster",
        "name",
        &json!({ "pattern": LABEL, "maxLength": 40 }),
    );
    say(all, "NewCluster", "pools", &json!({ "maxItems": 64 }));
    let ttl = json!({ "minimum": 600, "maximum": 604_800 });
    say(all, "KubeconfigRequest", "ttlSeconds", &ttl);
    let example = json!({ "name": "dev", "version": "1.34", "controlPlane": { "count": 1 },
        "pools": [{ "name": "workers", "count": 2, "labels": { "tier": "web" } }] });
    set(all, "NewCluster", "/examples", json!([example]));
}
