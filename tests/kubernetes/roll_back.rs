//! An upgrade whose new control plane never comes up: the one before comes
//! back from the snapshot, with all that it had.

use std::path::PathBuf;
use std::time::Instant;

use strata_testkit::serde_json::{Value, json};
use strata_testkit::wait_for;

use crate::kubernetes::kubectl::Kubectl;
use crate::kubernetes::tell;
use crate::kubernetes::world::{CLUSTER, TEST_TIMEOUT, World};

/// What kubeadm makes manifests of.
const CONFIG: &str = "configmap kubeadm-config -n kube-system";
/// No API server of any version knows it.
const FLAG: &str = "no-such-flag";
/// What changes the parts of a control plane, as it is found on a machine, and
/// not who looks for it.
pub(crate) const SWAP: &str = "'kubernetes/[s]wap v'";

/// Begins an upgrade that cannot end well. What changes the parts would put
/// back those before, also if it is ended and begun again; so it is ended and
/// what it has kept is lost, as on a machine that lost its disk's last writes.
pub(crate) async fn rolls_back(world: &mut World, kubectl: &Kubectl, control: &str, new: &str) {
    let vera = viewer(world).await;
    vera.until("get pods", |said| said.contains("web")).await;
    let healthy = configuration(kubectl).await;
    // The first arguments of the text are those of API servers.
    let flag = format!("  extraArgs:\n  - name: {FLAG}\n    value: \"1\"\n");
    let broken = healthy.replacen("  extraArgs:\n", &flag, 1);
    assert_ne!(broken, healthy);
    configure(kubectl, &broken).await;

    let begun = Instant::now();
    let path = format!("/cluster/{CLUSTER}/upgrade");
    let id = world.begin("POST", &path, json!({ "version": new })).await;
    world.comes_to(&id, "upgrade").await;
    // The snapshot, which knows her, is older than this.
    let revoke = format!("cluster kubeconfig {CLUSTER} --revoke --user vera");
    world.cli(&revoke).await;
    let manifest = "/var/lib/strata-kubernetes/etc/manifests/kube-apiserver.yaml";
    let kept = "/var/lib/strata-kubernetes/swap-old";
    let script = format!("grep -q {FLAG} {manifest} && pkill -9 -f {SWAP} && rm -r {kept}");
    world.says_yes(&[control.to_owned()], &script).await;
    tell(&format!(
        "the new API server cannot start: {:.1?}",
        begun.elapsed()
    ));
    // And the server, when all of the control plane has been ended.
    world.killed_at_word(&id, "ending the control plane").await;
    let ended = world.ended(&id).await;
    assert_eq!(ended["status"], "FAILED", "{ended:#}");
    assert_eq!(ended["leftovers"], Value::Null, "{ended:#}");
    tell(&format!(
        "rolled back: {:.1?}: {}",
        begun.elapsed(),
        ended["message"]
    ));
    let told = ended["message"].as_str().unwrap_or_default();
    assert!(told.contains(control), "{ended:#}");

    is_as_before(world, kubectl, control).await;
    refused(&vera).await;
    assert_eq!(configuration(kubectl).await, broken);
    configure(kubectl, &healthy).await;
}

async fn is_as_before(world: &World, kubectl: &Kubectl, control: &str) {
    let old = &world.bundles.old;
    kubectl.nodes_ready(3).await;
    for node in kubectl.list("nodes").await {
        let told = &node["status"]["nodeInfo"]["kubeletVersion"];
        assert_eq!(told, old, "{node:#}");
    }
    let version = kubectl.says("version -o json").await;
    let (_, server) = version.split_once("serverVersion").unwrap();
    assert!(server.contains(old), "{version}");
    let image = "get pod -n kube-system -o jsonpath={.spec.containers[0].image}";
    for part in [
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ] {
        let image = kubectl.says(&format!("{image} {part}-{control}")).await;
        assert!(image.ends_with(old), "{image}");
    }
    kubectl.web_is_ready().await;
    // It serves, and its record says that something was not done.
    let cluster = world.is("DEGRADED").await;
    assert_eq!(&cluster["version"], old, "{cluster:#}");
    let told = cluster["message"].as_str().unwrap_or_default();
    assert!(told.contains("upgrade"), "{cluster:#}");
}

async fn viewer(world: &World) -> Kubectl {
    let dir: PathBuf = world.daemon.scratch().join("vera");
    let out = dir.display();
    let issue = format!("certificate issue --role viewer --name vera --out {out}");
    world.cli(&issue).await;
    world.kubectl_as("vera", &dir).await
}

/// She is out, also after what let her in came back.
async fn refused(who: &Kubectl) {
    wait_for("the refusal", TEST_TIMEOUT, async || {
        let output = who.output("get pods", "").await;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let refused = !output.status.success() && told.contains("forbidden");
        refused.then_some(()).ok_or(told)
    })
    .await;
}

async fn configuration(kubectl: &Kubectl) -> String {
    let get = format!("get {CONFIG} -o jsonpath={{.data.ClusterConfiguration}}");
    let output = kubectl.output(&get, "").await;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn configure(kubectl: &Kubectl, text: &str) {
    let change = json!({ "data": { "ClusterConfiguration": text } });
    let patch = format!("patch {CONFIG} --type merge --patch-file /dev/stdin");
    let output = kubectl.output(&patch, &change.to_string()).await;
    assert!(output.status.success(), "{output:?}");
}
