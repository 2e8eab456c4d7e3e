//! One member to another version: kubeadm's part with the new kubeadm, then
//! the kubelet, which is never newer than the API server that it speaks to.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use strata_types::cluster::KubernetesVersion;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::bring;
use super::enter::wait_for;
use super::install::{self, Progress};
use super::machine::{HERE, Machine, Script};
use super::objects::Pod;
use super::observe::SYSTEM;
use crate::DriverError;
use crate::catalogue::Bundle;

/// With an etcd and an API server that start anew on a busy machine.
const KUBEADM: Duration = Duration::from_secs(10 * 60);
const SETTLE: Duration = Duration::from_secs(4 * 60);
/// How long all has to be well without a break.
const STEADY: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(500);
const PARTS: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

/// What an upgrade of one member takes.
pub(super) struct Upgrade<'a> {
    pub(super) to: KubernetesVersion,
    pub(super) bundle: &'a Bundle,
    pub(super) machine: Machine<'a>,
    /// The API server of this very machine, where it has one.
    pub(super) own: Option<Api>,
    pub(super) progress: Progress<'a>,
}

impl Upgrade<'_> {
    /// Does all of it.
    pub(super) async fn run(&self, api: &Api, first: bool) -> Result<(), DriverError> {
        let (to, machine) = (self.to, self.machine);
        (self.progress)(format!("bringing Kubernetes {to} to the machine"));
        let files = install::files(self.bundle);
        machine.put("put", files).await?;
        bring::bring(self.bundle, to, machine, self.progress).await?;
        (self.progress)("importing images".into());
        install::import(machine, to).await?;
        if first {
            tell_images(api, self.bundle).await?;
        }
        (self.progress)("kubeadm upgrade".into());
        let line = match first {
            true => format!("upgrade {to} first"),
            false => format!("upgrade {to}"),
        };
        let script = Script {
            line: &line,
            what: "kubeadm upgrade",
            input: None,
            timeout: KUBEADM,
            passing: true,
        };
        machine.script(script).await?;
        self.swap_kubelet(api).await
    }

    async fn swap_kubelet(&self, api: &Api) -> Result<(), DriverError> {
        let (to, machine) = (self.to.to_string(), self.machine);
        (self.progress)(format!("starting the kubelet of {to}"));
        machine.stop("kubelet").await?;
        let version = format!("{HERE}/version");
        machine.replace("put", &version, to.clone().into()).await?;
        // Pods outlive it, and the old bundle may go one day.
        machine.stop("containerd").await?;
        let command = format!("/bin/sh {HERE}/run-containerd");
        machine.supervise("containerd", &command).await?;
        let command = format!("/bin/sh {HERE}/run-kubelet");
        machine.supervise("kubelet", &command).await?;
        wait_for(api, machine.name, |node| {
            node.is_ready() && node.status.node_info.kubelet_version == to
        })
        .await?;
        match &self.own {
            Some(own) => {
                (self.progress)("waiting for the control plane to settle".into());
                settle(own, machine.name).await
            }
            None => Ok(()),
        }
    }
}

/// What starts etcd and the API server anew does so a moment after it was
/// asked to: whoever is next waits until they have been there for a while.
/// `own` is the API server of this very machine.
pub(super) async fn settle(own: &Api, machine: &str) -> Result<(), DriverError> {
    let end = Instant::now() + SETTLE;
    let mut since = Instant::now();
    loop {
        let well = is_well(own, machine).await;
        match &well {
            Ok(()) if since.elapsed() >= STEADY => return Ok(()),
            Ok(()) => {}
            Err(_) => since = Instant::now(),
        }
        if Instant::now() >= end {
            return Err(DriverError::Failed {
                what: "starting the control plane".into(),
                machine: machine.to_owned(),
                why: well.err().unwrap_or_else(|| "it comes and goes".into()),
                passing: true,
            });
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether the API server of a machine and all that steers there is ready.
async fn is_well(own: &Api, machine: &str) -> Result<(), String> {
    let say = |error: ApiError| error.to_string();
    own.text("/readyz").await.map_err(say)?;
    for part in PARTS {
        let path = format!("{SYSTEM}/pods/{part}-{machine}");
        let pod: Pod = own.get(&path).await.map_err(say)?;
        if !pod.is_ready() {
            return Err(format!("{part} is not ready"));
        }
    }
    Ok(())
}

/// kubeadm keeps what it was told of images by tag; the new version has others.
async fn tell_images(api: &Api, bundle: &Bundle) -> Result<(), DriverError> {
    let path = format!("{SYSTEM}/configmaps/kubeadm-config");
    let found: Value = match api.get(&path).await {
        Err(error) if error.is(StatusCode::NOT_FOUND) => {
            let why = "its ConfigMap kubeadm-config is gone; put it back first";
            return Err(DriverError::Refused(why.into()));
        }
        other => other?,
    };
    let before = found["data"]["ClusterConfiguration"].as_str();
    let after = with_tags(before.unwrap_or_default(), &bundle.etcd, &bundle.coredns);
    if before == Some(&after) {
        return Ok(());
    }
    let change = json!({"data": {"ClusterConfiguration": after}});
    Ok(api.patch(&path, &change).await?)
}

/// The same text with other tags: of `dns:` and of `etcd:` below.
fn with_tags(text: &str, etcd: &str, coredns: &str) -> String {
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
    use super::*;

    #[test]
    fn only_the_tags_of_etcd_and_dns_are_changed() {
        let text = "apiServer: {}\ndns:\n  imageTag: v1.12.1\netcd:\n  local:\n    dataDir: /var/lib/etcd\n    imageTag: 3.6.5-0\nkubernetesVersion: v1.34.4\n";
        let expected = "apiServer: {}\ndns:\n  imageTag: v1.13.1\netcd:\n  local:\n    dataDir: /var/lib/etcd\n    imageTag: 3.6.6-0\nkubernetesVersion: v1.34.4\n";
        assert_eq!(with_tags(text, "3.6.6-0", "v1.13.1"), expected);
        assert_eq!(with_tags(expected, "3.6.6-0", "v1.13.1"), expected);
    }
}
