//! Clusters on machines and on a Kubernetes that are both simulated.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use strata_clusters::catalogue::Catalogue;
use strata_clusters::sim::Sim as Kubernetes;
use strata_machines::{Provider, Providers, Secret, sim};
use strata_server::core::{Core, NodeFacts};
use strata_server::operations::{Backends, Clusters, HypervisorProof, Hypervisors};
use strata_server::reconcile;
use strata_store::Memory;
use strata_types::{Result, Role};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::watch::Reader;
use crate::world::{Answer, WAIT_TIMEOUT, World, caller};

/// Often enough that no test waits long.
const BEAT: Duration = Duration::from_millis(20);

struct Proven;

impl HypervisorProof for Proven {
    fn prove<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<()>> {
        std::future::ready(Ok(())).boxed()
    }
}

/// A control plane with six machines and three versions of Kubernetes.
pub(crate) struct ClusterWorld {
    pub(crate) world: World,
    bundles: tempfile::TempDir,
    _over: DropGuard,
}

impl std::ops::Deref for ClusterWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl ClusterWorld {
    pub(crate) async fn new() -> Self {
        let machines = sim::Sim::new(["m1", "m2", "m3", "m4", "m5", "m6"]);
        let bundles = tempfile::tempdir().unwrap();
        let over = CancellationToken::new();
        let (simulated, dir) = (machines.clone(), bundles.path().to_owned());
        let world = World::with(Arc::new(Memory::new()), |core: &Core| {
            let driver: Arc<dyn Provider> = Arc::new(simulated);
            Backends {
                hypervisors: Hypervisors {
                    providers: Providers::new([driver]),
                    join_tokens: Arc::new(|_, _| Ok(Secret::new("once"))),
                    prove: Arc::new(Proven),
                    server: "https://server".into(),
                    run: "test".into(),
                    ..Hypervisors::none(core.clone())
                },
                clusters: Clusters {
                    driver: Arc::new(Kubernetes::default()),
                    catalogue: Catalogue::new(&dir),
                    ..Clusters::none(core.clone())
                },
                ..Backends::none(core)
            }
        })
        .await;
        speak(&world.core, &machines, over.clone());
        reconcile::start_clusters(world.state.backends.clusters.clone(), over.clone());
        let world = Self {
            world,
            bundles,
            _over: over.drop_guard(),
        };
        for version in ["v1.34.4", "v1.34.6", "v1.35.1"] {
            world.bundle(version);
        }
        for n in 1..=6 {
            let machine = json!({ "id": format!("m{n}"), "provider": "sim" });
            assert_eq!(world.put("/machine", &machine).await.status, 201);
        }
        world
    }

    fn bundle(&self, version: &str) {
        let dir = self.bundles.path().join(version);
        std::fs::create_dir(&dir).unwrap();
        let text = json!({ "version": version, "etcd": "3.6.6-0", "coredns": "v1.12.1",
            "pause": "3.10.1", "images": ["strata.internal/kubernetes/pause:3.10.1"] });
        std::fs::write(dir.join("bundle.json"), text.to_string()).unwrap();
    }

    /// Waits until what is at `path` is as wanted. What is observed of a
    /// cluster is no record, so no watch reports it.
    pub(crate) async fn comes(&self, path: &str, condition: impl Fn(&Answer) -> bool) -> Answer {
        let waited = tokio::time::timeout(WAIT_TIMEOUT, async {
            let mut beat = tokio::time::interval(BEAT);
            loop {
                beat.tick().await;
                let answer = self.get(path).await;
                if condition(&answer) {
                    return answer;
                }
            }
        });
        match waited.await {
            Ok(answer) => answer,
            Err(_) => panic!("waited in vain: {:?}", self.get(path).await),
        }
    }

    /// The cluster `dev`, which runs.
    pub(crate) async fn dev(&self) {
        let made = self.put("/cluster", &dev()).await;
        self.done(&made).await;
        self.runs("dev").await;
    }

    async fn runs(&self, name: &str) -> Value {
        let path = format!("/cluster/{name}");
        let running = |answer: &Answer| answer.json()["status"] == "RUNNING";
        self.comes(&path, running).await.json()
    }
}

/// Every machine that is on and was booted has a node that sends heartbeats.
fn speak(core: &Core, machines: &sim::Sim, over: CancellationToken) {
    let (core, machines) = (core.clone(), machines.clone());
    tokio::spawn(over.run_until_cancelled_owned(async move {
        let mut beat = tokio::time::interval(BEAT);
        loop {
            beat.tick().await;
            for (_, machine) in machines.machines() {
                let (true, Some(tag), Some(_)) = (machine.on, machine.tag, machine.boot) else {
                    continue;
                };
                let name = tag.machine.as_str();
                let word = NodeFacts {
                    address: Some("192.0.2.1".into()),
                    capacity: Some((4000, 8_000_000_000, 1_000_000_000_000)),
                    follows: Some(true),
                    ..NodeFacts::default()
                };
                if core.node(name).is_ok() {
                    let _ = core.update_node_facts(name, &word).await;
                }
            }
        }
    }));
}

fn dev() -> Value {
    json!({ "name": "dev", "version": "1.34.4", "controlPlane": { "count": 1 },
        "pools": [{ "name": "web", "count": 2, "labels": { "tier": "web" } }] })
}

#[tokio::test]
async fn cluster_is_planned_created_shown_and_deleted() {
    let world = ClusterWorld::new().await;
    let all = world.get("/kubernetes").await;
    assert_eq!(all.header("x-total-count"), Some("3"));
    assert!(all.text.contains("v1.35.1"), "{all:?}");

    let plan = world.put("/cluster?dryRun=true", &dev()).await;
    assert_eq!(plan.status, 200, "{plan:?}");
    assert_eq!(plan.json()["add"].as_array().unwrap().len(), 3);
    assert_eq!(world.get("/cluster").await.json(), json!([]));

    let made = world.put("/cluster/", &dev()).await;
    assert_eq!(made.status, 202, "{made:?}");
    let told = world.get("/cluster/dev").await.json();
    assert_eq!(told["status"], "PROVISIONING", "{told}");
    world
        .post("/cluster/dev/snapshot", &json!({}))
        .await
        .refused(409, None);
    world.done(&made).await;
    let told = world.runs("dev").await;
    assert_eq!(told["ready"], 3, "{told}");
    assert_eq!(told["version"], "v1.34.4");
    let list = world.get("/cluster").await;
    assert_eq!(list.header("x-total-count"), Some("1"));
    assert_eq!(list.json()[0]["name"], "dev");

    // The same again is the same; another of that name is not.
    let again = world.put("/cluster", &dev()).await;
    assert_eq!(again.status, 202, "{again:?}");
    let mut other = dev();
    other["pools"] = json!([]);
    world
        .put("/cluster", &other)
        .await
        .refused(409, Some("name"));

    let nodes = world.get("/cluster/dev/node").await.json();
    let nodes = nodes.as_array().unwrap();
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    for node in nodes {
        assert_eq!(
            (&node["status"], &node["phase"]),
            (&json!("Ready"), &json!("UP"))
        );
        assert_eq!(node["version"], "v1.34.4");
    }
    let pools = world.get("/cluster/dev/pool").await.json();
    assert_eq!(
        (&pools[0]["name"], &pools[0]["ready"]),
        (&json!("web"), &json!(2))
    );

    world.done(&world.delete("/cluster/dev").await).await;
    world.get("/cluster/dev").await.refused(404, None);
    world.delete("/cluster/dev").await.refused(404, None);
    let machines = world.get("/machine").await.json();
    for machine in machines.as_array().unwrap() {
        assert_eq!(machine["phase"], "AVAILABLE", "{machine}");
    }
}

#[tokio::test]
async fn pools_grow_shrink_come_and_go() {
    let world = ClusterWorld::new().await;
    world.dev().await;
    let plan = world
        .patch("/cluster/dev/pool/web?dryRun=true", &json!({ "count": 1 }))
        .await;
    assert_eq!(plan.status, 200, "{plan:?}");
    assert_eq!(plan.json()["remove"].as_array().unwrap().len(), 1);
    let scaled = world
        .patch("/cluster/dev/pool/web", &json!({ "count": 3 }))
        .await;
    world.done(&scaled).await;
    let gpu = json!({ "name": "train", "count": 1, "instanceType": "gpu" });
    let none = world.put("/cluster/dev/pool", &gpu).await;
    assert_eq!(none.status, 429, "{none:?}");
    let more = json!({ "name": "more", "count": 1 });
    world
        .done(&world.put("/cluster/dev/pool", &more).await)
        .await;
    world
        .done(&world.delete("/cluster/dev/pool/more").await)
        .await;
    let pools = world.get("/cluster/dev/pool").await;
    assert_eq!(pools.header("x-total-count"), Some("1"));
    assert_eq!(pools.json()[0]["count"], 3);

    for path in ["/cluster/dev/pool/none", "/cluster/none/pool/web"] {
        world.delete(path).await.refused(404, None);
        let sized = world.patch(path, &json!({ "count": 1 })).await;
        sized.refused(404, None);
    }
    let taken = world
        .put("/cluster/dev/pool", &json!({ "name": "web", "count": 1 }))
        .await;
    taken.refused(409, Some("name"));
    let much = world
        .patch("/cluster/dev/pool/web", &json!({ "count": 201 }))
        .await;
    much.refused(422, Some("count"));
    let negative = world
        .patch("/cluster/dev/pool/web", &json!({ "count": -1 }))
        .await;
    negative.refused(422, Some("count"));
}

#[tokio::test]
async fn cluster_is_upgraded_snapshotted_and_restored() {
    let world = ClusterWorld::new().await;
    world.dev().await;
    let targets = world.get("/cluster/dev/upgrade").await.json();
    assert_eq!(targets["versions"], json!(["v1.34.6", "v1.35.1"]));
    let plan = world.get("/cluster/dev/upgrade?version=1.35").await.json();
    assert_eq!(
        (&plan["from"], &plan["to"]),
        (&json!("v1.34.4"), &json!("v1.35.1"))
    );
    assert_eq!(plan["steps"][0]["role"], "control-plane", "{plan}");
    assert_eq!(plan["steps"].as_array().unwrap().len(), 3);
    assert_eq!(plan["blockers"], json!([]));
    let to = |version: &str| json!({ "version": version });
    let missing = world.post("/cluster/dev/upgrade", &to("1.36")).await;
    missing.refused(422, Some("version"));
    world
        .done(&world.post("/cluster/dev/upgrade", &to("1.35")).await)
        .await;
    let told = world.runs("dev").await;
    assert_eq!(told["version"], "v1.35.1");
    let none = world.get("/cluster/dev/upgrade").await.json();
    assert_eq!(none["versions"], json!([]));

    world
        .done(&world.post("/cluster/dev/snapshot", &json!({})).await)
        .await;
    let all = world.get("/cluster/dev/snapshot").await.json();
    assert!(!all.as_array().unwrap().is_empty(), "{all}");
    let back = |snapshot: &str| json!({ "snapshot": snapshot });
    world
        .post("/cluster/dev/restore", &back("none"))
        .await
        .refused(404, None);
    world
        .done(&world.post("/cluster/dev/restore", &back("latest")).await)
        .await;
}

#[tokio::test]
async fn granted_cluster_access_is_revoked() {
    let world = ClusterWorld::new().await;
    world.dev().await;
    let kind = ("content-type", "application/json");
    let path = "/cluster/dev/kubeconfig";
    for (role, key) in [(Role::Operator, "a"), (Role::Viewer, "b")] {
        let headers = [kind, ("idempotency-key", key)];
        let ask = || {
            world.ask(
                caller(role),
                "POST",
                path,
                &headers,
                r#"{"ttlSeconds":600}"#,
            )
        };
        let made = ask().await;
        assert_eq!(made.status, 200, "{made:?}");
        let user = made.json()["user"].as_str().unwrap().to_owned();
        let may = match role {
            Role::Viewer => "view",
            _ => "cluster-admin",
        };
        assert_eq!(user, format!("strata:{role}:{may}:1"));
        // Credentials are not kept to be given again.
        assert_eq!(ask().await.header("idempotency-replayed"), None);
    }
    for (ttl, field) in [(json!(599), "ttlSeconds"), (json!("x"), "ttlSeconds")] {
        let bad = world.post(path, &json!({ "ttlSeconds": ttl })).await;
        bad.refused(422, Some(field));
    }
    let other = format!("{path}?user=viewer");
    let denied = world
        .ask(caller(Role::Operator), "DELETE", &other, &[], "")
        .await;
    denied.refused(403, None);
    assert_eq!(world.delete(&other).await.status, 204);
    let again = world
        .ask(caller(Role::Viewer), "POST", path, &[kind], "{}")
        .await;
    assert_eq!(again.json()["user"], "strata:viewer:view:2");
    // What was never given is revoked, too.
    assert_eq!(world.delete(path).await.status, 204);
}

#[tokio::test]
async fn clusters_are_followed() {
    let world = ClusterWorld::new().await;
    let mut reader = Reader::new(&world, Role::Viewer, "/cluster?watch=true").await;
    let (word, _, _) = reader.next().await.unwrap();
    assert_eq!(word, "synced");
    let made = world.put("/cluster", &dev()).await;
    let (word, _, told) = reader.next().await.unwrap();
    assert_eq!((word.as_str(), &told["name"]), ("put", &json!("dev")));
    world.done(&made).await;
    world.done(&world.delete("/cluster/dev").await).await;
    loop {
        let (word, _, told) = reader.next().await.unwrap();
        assert_eq!(told["name"], "dev");
        if word == "delete" {
            break;
        }
    }
}

#[tokio::test]
async fn bad_clusters_are_refused_by_their_field() {
    let world = ClusterWorld::new().await;
    for (bad, status, field) in [
        (json!({ "name": "Dev" }), 422, Some("name")),
        (json!({ "name": "" }), 422, Some("name")),
        (json!({ "name": "a".repeat(41) }), 422, Some("name")),
        (json!({ "version": "1.33" }), 422, Some("version")),
        (json!({ "version": "latest" }), 422, Some("version")),
        (
            json!({ "controlPlane": { "count": 2 } }),
            422,
            Some("controlPlane.count"),
        ),
        (
            json!({ "controlPlane": { "count": -1 } }),
            422,
            Some("controlPlane.count"),
        ),
        (
            json!({ "pools": [{ "name": "A", "count": 1 }] }),
            422,
            Some("pools[0].name"),
        ),
        (
            json!({ "pools": [{ "name": "a", "count": 1 }, { "name": "a", "count": 1 }] }),
            422,
            Some("pools[1].name"),
        ),
        (
            json!({ "pools": [{ "name": "a", "count": 1, "labels": { "-": "x" } }] }),
            422,
            Some("pools[0].labels"),
        ),
        (
            json!({ "pools": [{ "name": "a", "count": 1, "instanceType": "huge" }] }),
            422,
            Some("pools[0].instanceType"),
        ),
        (json!({ "colour": "red" }), 422, Some("colour")),
    ] {
        let mut asked = dev();
        let fields = bad.as_object().unwrap().clone();
        asked.as_object_mut().unwrap().extend(fields);
        for path in ["/cluster", "/cluster?dryRun=true"] {
            let answer = world.put(path, &asked).await;
            assert_eq!(answer.status, status, "{bad}: {answer:?}");
            answer.refused(status, field);
        }
    }
    let mut much = dev();
    much["pools"][0]["count"] = json!(6);
    let answer = world.put("/cluster", &much).await;
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(world.get("/cluster").await.json(), json!([]));
    for path in ["node", "pool", "upgrade", "snapshot"] {
        let path = format!("/cluster/none/{path}");
        world.get(&path).await.refused(404, None);
    }
}
