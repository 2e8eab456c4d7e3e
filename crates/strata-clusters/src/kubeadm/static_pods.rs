//! The parts of a control plane (etcd, the API server, controller manager and
//! scheduler) at another version. kubeadm writes their files, by the
//! configuration that the cluster itself keeps; a script of ours puts them in
//! place all at once, and back when they do not come up.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use strata_types::cluster::KubernetesVersion;

use super::api::Api;
use super::apiserver;
use super::machine::{Machine, Script};
use super::observe::SYSTEM;
use crate::catalogue::Bundle;
use crate::{ClusterFacts, DriverError};

/// The name by which it runs: its script's.
pub(super) const NAME: &str = "swap";
/// How long new parts have to come up, as in the script.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(100);
/// Longer than it waits for the new ones and, after that, for those before.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// It has restored what was there before: the same again would not help.
const ROLLED_BACK_EXIT: &str = "exit code 3";

/// Brings the parts on a machine to the version of a bundle.
pub(super) async fn static_pods(
    api: &Api,
    cluster: &ClusterFacts,
    machine: Machine<'_>,
    bundle: &Bundle,
    first: bool,
) -> Result<(), DriverError> {
    let to = bundle.version;
    let (_, cluster_config) = cluster_config(api).await?;
    let cluster_config = configured(&cluster_config, cluster);
    let turn = if first { "first" } else { "further" };
    let script = Script {
        line: &format!("{NAME} {to} {turn}"),
        what: "upgrading the control plane",
        input: Some(reported(&cluster_config, machine.name, to, bundle).into_bytes()),
        timeout: SCRIPT_TIMEOUT,
        passing: true,
    };
    run(machine, script).await
}

/// Restores the parts that were there before, where a run was killed before
/// that could be done. Otherwise it does nothing.
pub(super) async fn back(machine: Machine<'_>, to: KubernetesVersion) -> Result<(), DriverError> {
    let script = Script {
        line: &format!("{NAME} {to} back"),
        what: "upgrading the control plane",
        input: None,
        timeout: SCRIPT_TIMEOUT,
        passing: true,
    };
    run(machine, script).await
}

async fn run(machine: Machine<'_>, script: Script<'_>) -> Result<(), DriverError> {
    match machine.script(script).await {
        Err(DriverError::Failed {
            what, machine, why, ..
        }) => Err(DriverError::Failed {
            passing: !why.starts_with(ROLLED_BACK_EXIT),
            what,
            machine,
            why,
        }),
        other => other.map(drop),
    }
}

/// kubeadm keeps the tags of images in its configuration; the new version has
/// others.
pub(super) async fn update_images(
    api: &Api,
    cluster: &ClusterFacts,
    bundle: &Bundle,
) -> Result<(), DriverError> {
    let change = |before: &str| {
        let after = with_tags(before, &bundle.etcd, &bundle.coredns);
        configured(&after, cluster)
    };
    rewrite(api, change).await
}

/// Has the cluster keep what its API servers are started with. A snapshot from
/// before they were configured does not know it, and one that joins without
/// could not read what the others encrypt.
pub(super) async fn update_api_servers(
    api: &Api,
    cluster: &ClusterFacts,
) -> Result<(), DriverError> {
    rewrite(api, |before| configured(before, cluster)).await
}

fn configured(cluster_config: &str, cluster: &ClusterFacts) -> String {
    match apiserver::is_configured(cluster) {
        true => apiserver::with_arguments(cluster_config),
        false => cluster_config.to_owned(),
    }
}

async fn rewrite(api: &Api, change: impl Fn(&str) -> String) -> Result<(), DriverError> {
    let (path, before) = cluster_config(api).await?;
    let after = change(&before);
    if before == after {
        return Ok(());
    }
    let change = json!({"data": {"ClusterConfiguration": after}});
    Ok(api.patch(&path, &change).await?)
}

/// What the cluster keeps of how it was made, and where.
async fn cluster_config(api: &Api) -> Result<(String, String), DriverError> {
    let path = format!("{SYSTEM}/configmaps/kubeadm-config");
    let found: Value = match api.get(&path).await {
        Err(error) if error.is(StatusCode::NOT_FOUND) => {
            let why = "its ConfigMap kubeadm-config is gone; put it back first";
            return Err(DriverError::Refused(why.into()));
        }
        other => other?,
    };
    let text = found["data"]["ClusterConfiguration"].as_str();
    Ok((path, text.unwrap_or_default().to_owned()))
}

/// The configuration of kubeadm for the files of one machine, which itself
/// knows its address best.
fn reported(cluster_config: &str, machine: &str, to: KubernetesVersion, bundle: &Bundle) -> String {
    let own = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "InitConfiguration",
        "nodeRegistration": {
            "name": machine,
            "criSocket": "unix:///run/containerd/containerd.sock",
        },
        "localAPIEndpoint": {"advertiseAddress": "@ADDRESS@", "bindPort": 6443},
    });
    let cluster_config = with_tags(cluster_config, &bundle.etcd, &bundle.coredns);
    let whole = cluster_config
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("kubernetesVersion", _)) => format!("kubernetesVersion: {to}\n"),
            _ => format!("{line}\n"),
        });
    format!("{own}\n---\n{}", whole.collect::<String>())
}

/// The same text with other tags: of `dns:` and of `etcd:` below.
pub(super) fn with_tags(text: &str, etcd: &str, coredns: &str) -> String {
    let mut section = "";
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if !line.starts_with([' ', '-']) {
            section = line.split(':').next().unwrap_or_default();
        }
        let tag = match section {
            "etcd" => Some(etcd),
            "dns" => Some(coredns),
            _ => None,
        };
        match (tag, line.find("imageTag:")) {
            (Some(tag), Some(at)) => out.push_str(&format!("{}imageTag: {tag}", &line[..at])),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, FakeApi, FakeExec};
    use super::*;

    const KEPT: &str = "apiServer: {}\ndns:\n  imageTag: v1.12.1\netcd:\n  local:\n    dataDir: /var/lib/etcd\n    imageTag: 3.6.5-0\nkubernetesVersion: v1.34.4\n";

    const TO: KubernetesVersion = KubernetesVersion::new(1, 35, 4);

    fn bundle() -> Bundle {
        Bundle {
            version: TO,
            etcd: "3.6.6-0".into(),
            coredns: "v1.13.1".into(),
            pause: "3.10.1".into(),
            images: Vec::new(),
            dir: Default::default(),
        }
    }

    #[test]
    fn only_etcd_and_dns_image_tags_change() {
        let expected = "apiServer: {}\ndns:\n  imageTag: v1.13.1\netcd:\n  local:\n    dataDir: /var/lib/etcd\n    imageTag: 3.6.6-0\nkubernetesVersion: v1.34.4\n";
        assert_eq!(with_tags(KEPT, "3.6.6-0", "v1.13.1"), expected);
        assert_eq!(with_tags(expected, "3.6.6-0", "v1.13.1"), expected);
    }

    #[test]
    fn kubeadm_configuration_gets_the_new_version() {
        let (to, bundle) = (TO, bundle());
        let text = reported(KEPT, "c1", to, &bundle);
        let (own, whole) = text.split_once("\n---\n").unwrap();
        let own: Value = serde_json::from_str(own).unwrap();
        assert_eq!(own["nodeRegistration"]["name"], "c1");
        assert_eq!(own["localAPIEndpoint"]["advertiseAddress"], "@ADDRESS@");
        let expected = with_tags(KEPT, "3.6.6-0", "v1.13.1").replace("v1.34.4", "v1.35.4");
        assert_eq!(whole, expected);
    }

    #[tokio::test]
    async fn encrypted_cluster_keeps_its_api_server_arguments() {
        let mut cluster = fake::cluster(&["c1"]);
        let api = FakeApi::new(&cluster.secrets, |_, _| {
            (200, json!({"data": {"ClusterConfiguration": KEPT}}))
        });
        let fake = api.await;
        let driver = fake::driver(FakeExec::ending_with(0), &fake);
        let api = driver.api(&cluster).unwrap();
        let key = cluster.secrets.remove("encryption.key").unwrap();
        update_api_servers(&api, &cluster).await.unwrap();
        assert_eq!(fake.body_of("PATCH"), Value::Null, "it has no key");
        cluster.secrets.insert("encryption.key".into(), key.clone());
        update_api_servers(&api, &cluster).await.unwrap();
        let patch = fake.body_of("PATCH");
        let cluster_config = patch["data"]["ClusterConfiguration"].as_str().unwrap();
        assert!(
            cluster_config.contains("- name: encryption-provider-config\n"),
            "{cluster_config}"
        );
        assert!(!cluster_config.contains(key.expose()), "{cluster_config}");
    }

    #[tokio::test]
    async fn rolled_back_manifest_is_not_retried() {
        let cluster = fake::cluster(&["c1"]);
        let api = FakeApi::new(&cluster.secrets, |line, _| match line {
            line if line.contains("configmaps") => {
                (200, json!({"data": {"ClusterConfiguration": KEPT}}))
            }
            _ => (200, json!({"items": [{}]})),
        });
        let api = api.await;
        for (code, passing) in [(1, true), (3, false)] {
            let remote_exec = FakeExec::failing("swap", code);
            let driver = fake::driver(remote_exec.clone(), &api);
            let machine = driver.machine(&cluster.members[0]);
            let api = driver.api(&cluster).unwrap();
            let error = static_pods(&api, &cluster, machine, &bundle(), true)
                .await
                .unwrap_err();
            assert_eq!(error.is_transient(), passing, "{error}");
            let ran = remote_exec.ran.lock().unwrap().join("\n");
            assert!(ran.ends_with("swap v1.35.4 first"), "{ran}");
            let error = back(machine, TO).await.unwrap_err();
            assert_eq!(error.is_transient(), passing, "{error}");
            let ran = remote_exec.ran.lock().unwrap().join("\n");
            assert!(ran.ends_with("swap v1.35.4 back"), "{ran}");
        }
    }
}
