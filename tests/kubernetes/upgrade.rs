//! A cluster that is made, upgraded and deleted while the server dies in the
//! middle of every step, and its workload goes on, also when an upgrade fails;
//! and that is put back to a snapshot.

use strata_testkit::serde_json::{Value, json};

use crate::kubernetes::hardening;
use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::request_client::Asking;
use crate::kubernetes::roll_back::{SWAP, rolls_back};
use crate::kubernetes::tell;
use crate::kubernetes::web_workload::PORT;
use crate::kubernetes::world::{CLUSTER, World};

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
    for step in ["machines", "control plane"] {
        world.killed_at(&id, step).await;
    }
    for role in ["control-plane", "workers"] {
        let machines = world.members(role).await;
        world.killed_amid(&machines, "kubeadm").await;
    }
    world.completed(&id).await;
    tell(&format!(
        "created through four deaths: {:.1?}",
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

    hardening::make_secret(&kubectl).await;
    rolls_back(&mut world, &kubectl, &control, &new).await;
    hardening::secret_is_readable(&world).await;
    upgrades(&mut world, &kubectl, &control, &new).await;
    kubectl.nodes_ready(3).await;
    hardening::secret_is_readable(&world).await;
    hardening::secret_is_encrypted_in_etcd(&world, &control).await;
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
    hardening::secret_is_readable(&world).await;
    let id = world
        .begin("DELETE", &format!("/cluster/{CLUSTER}"), Value::Null)
        .await;
    world.killed_at(&id, "machines").await;
    // And when the first of its machines is free again.
    let free = |all: &Value| {
        let mut all = all.as_array().into_iter().flatten();
        all.any(|one| one["phase"] == "AVAILABLE")
    };
    world.until("/machine", free).await;
    world.kill_and_restart().await;
    world.completed(&id).await;
    // A daemon that starts without machines has nothing of a network.
    world.before().await;
    world.returns_to(&before).await;
}

async fn upgrades(world: &mut World, kubectl: &Kubectl, control: &str, new: &str) {
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
    world.killed_at(&id, "snapshot").await;
    // The control plane's turn: its files are new, and it is not up yet.
    let manifest = "/var/lib/strata-kubernetes/etc/manifests/kube-apiserver.yaml";
    let half = format!("grep -q {new} {manifest} && pgrep -f {SWAP}");
    world.says_yes(&[control.to_owned()], &half).await;
    world.kill_and_restart().await;
    // The first worker's.
    kubectl.web_is_moved().await;
    world.kill_and_restart().await;
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
        reason.starts_with("before the upgrade") && reason.ends_with(&id)
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
