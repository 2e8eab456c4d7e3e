//! A cluster that is made, upgraded and deleted while the server dies at every
//! step, and its workload goes on; and that is put back to a snapshot.

use strata_testkit::serde_json::{Value, json};

use crate::asking::Asking;
use crate::tell;
use crate::web::PORT;
use crate::world::{CLUSTER, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_upgraded_and_restored_through_deaths_of_the_server() {
    let Some(mut world) = World::start(3).await else {
        return;
    };
    let before = world.before().await;
    let (old, new) = (world.bundles.old.clone(), world.bundles.new.clone());
    let wanted = json!({
        "name": CLUSTER,
        "version": old,
        "controlPlane": { "count": 1 },
        "pools": [{ "name": "workers", "count": 2 }],
    });
    let begun = std::time::Instant::now();
    let id = world.begin("PUT", "/cluster", wanted).await;
    for step in ["machines", "control plane", "join"] {
        world.killed_at(&id, step).await;
    }
    world.completed(&id).await;
    tell(&format!(
        "created through three deaths: {:.1?}",
        begun.elapsed()
    ));
    world.is("RUNNING").await;
    let kubectl = world.kubectl().await;
    kubectl.nodes_ready(3).await;
    world.import_image(&world.members("workers").await).await;
    kubectl.deploy_web().await;
    let control = world.members("control-plane").await.remove(0);
    let address = format!("{}:{PORT}", world.address(&control).await);
    let asking = Asking::begin(&world.network, address.parse().unwrap()).await;

    upgrades(&mut world, &new).await;
    kubectl.nodes_ready(3).await;
    for node in kubectl.list("nodes").await {
        let told = &node["status"]["nodeInfo"]["kubeletVersion"];
        assert_eq!(told, &new, "{node:#}");
    }
    kubectl.web_is_ready().await;
    let told = kubectl.says("version -o json").await;
    assert!(
        told.contains(&format!("\"gitVersion\": \"{new}\"")),
        "{told}"
    );
    let count = asking.end();
    tell(&format!(
        "upgraded: {} answers, the slowest after {:.0?}, {} failures: {:?}",
        count.answered,
        count.slowest,
        count.failed.len(),
        count.failed
    ));
    assert!(count.answered > 100, "{count:?}");
    assert!(count.failed.is_empty(), "{count:?}");

    restores(&world).await;
    let id = world
        .begin("DELETE", &format!("/cluster/{CLUSTER}"), Value::Null)
        .await;
    world.killed_at(&id, "machines").await;
    world.completed(&id).await;
    world.returns_to(&before).await;
}

async fn upgrades(world: &mut World, new: &str) {
    let path = format!("/cluster/{CLUSTER}/upgrade");
    let targets = world.rest().get(&path).await;
    assert_eq!(targets["versions"], json!([new]), "{targets}");
    // What has only just come up is waited for.
    let plan = format!("{path}?version={new}");
    let open = |plan: &Value| plan["blockers"] == json!([]);
    let plan = world.until(&plan, open).await;
    assert_eq!(plan["steps"].as_array().unwrap().len(), 3, "{plan:#}");
    let begun = std::time::Instant::now();
    let id = world.begin("POST", &path, json!({ "version": new })).await;
    // The control plane's turn, then the first worker's.
    for step in ["snapshot", "upgrade", "empty"] {
        world.killed_at(&id, step).await;
    }
    let done = world.completed(&id).await;
    assert_eq!(done["leftovers"], Value::Null, "{done:#}");
    tell(&format!(
        "upgraded through three deaths: {:.1?}",
        begun.elapsed()
    ));
    let targets = world.rest().get(&path).await;
    assert_eq!(targets["versions"], json!([]), "{targets}");
    let cluster = world.is("RUNNING").await;
    assert_eq!(cluster["version"], new, "{cluster:#}");
    let kept = world
        .rest()
        .get(&format!("/cluster/{CLUSTER}/snapshot"))
        .await;
    let of_upgrade = |one: &Value| {
        let reason = one["reason"].as_str().unwrap_or_default();
        reason.starts_with("before the upgrade")
    };
    let all = kept.as_array().unwrap();
    assert_eq!(
        all.iter().filter(|it| of_upgrade(it)).count(),
        1,
        "{kept:#}"
    );
}

/// What was there when the snapshot was made is there again, and nothing else.
async fn restores(world: &World) {
    let kubectl = world.kubectl().await;
    kubectl.says("create configmap kept").await;
    let path = format!("/cluster/{CLUSTER}/snapshot");
    let id = world.begin("POST", &path, json!({})).await;
    world.completed(&id).await;
    kubectl.says("create configmap later").await;
    kubectl.says("delete configmap kept").await;
    let begun = std::time::Instant::now();
    let path = format!("/cluster/{CLUSTER}/restore");
    let wanted = json!({ "snapshot": "latest" });
    let id = world.begin("POST", &path, wanted).await;
    world.completed(&id).await;
    world.is("RUNNING").await;
    tell(&format!("restored: {:.1?}", begun.elapsed()));
    let kubectl = world.kubectl().await;
    let there = |said: &str| said.contains("kept") && !said.contains("later");
    kubectl.until("get configmaps", there).await;
    kubectl.nodes_ready(3).await;
    kubectl.web_is_ready().await;
}
