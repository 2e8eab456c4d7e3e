//! One member to another version: the parts of a control plane first, with the
//! kubelet that begins with them, then what else kubeadm manages; a worker's
//! kubelet at the end. None is newer than the API server that it calls.

use std::time::Duration;

use futures_util::future::{join_all, try_join};
use http::StatusCode;
use serde_json::Value;
use strata_types::cluster::KubernetesVersion;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::apiserver;
use super::bundle_transfer;
use super::install::{self, Progress};
use super::join::{until, wait_for};
use super::machine::{HERE, Machine, Script};
use super::objects::{List, Node, Pod};
use super::observe::SYSTEM;
use super::restore::serves;
use super::static_pods;
use crate::catalogue::Bundle;
use crate::{ClusterFacts, DriverError};

/// What is left of kubeadm's work, on a busy machine.
const KUBEADM: Duration = Duration::from_secs(3 * 60);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(4 * 60);
/// How long all has to be well without a break.
const STABLE_FOR: Duration = Duration::from_secs(10);
/// The same where it is known that the new ones run, and that nothing starts
/// them again.
const OBSERVED_WITHIN: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How many machines take images at the same time.
const MAX_CONCURRENT: usize = 4;
const PARTS: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];
/// What kubeadm runs in the cluster, and how many of it there should be.
const ADD_ONS: [(&str, &str); 2] = [
    ("daemonsets/kube-proxy", "/status/desiredNumberScheduled"),
    ("deployments/coredns", "/spec/replicas"),
];

/// What an upgrade of one member takes.
pub(super) struct Upgrade<'a> {
    pub(super) cluster: &'a ClusterFacts,
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
        let mut files = install::files(self.bundle);
        if self.own.is_some() {
            files = apiserver::files(self.cluster, files);
        }
        machine.put("put", files).await?;
        // A run that was killed in the middle may have left it stopped,
        install::containerd(machine).await?;
        // and no API server that answers yet, or ever.
        if let Err(error) = serves(api, static_pods::START_TIMEOUT).await {
            if self.own.is_some() {
                static_pods::back(machine, to).await?;
            }
            return Err(error);
        }
        if first {
            self.transfer_everywhere(api).await?;
        }
        self.bundle_transfer(machine).await?;
        if let Some(own) = &self.own {
            (self.progress)("restarting the control plane".into());
            static_pods::static_pods(api, self.cluster, machine, self.bundle, first).await?;
            self.shows(own).await?;
        }
        if first {
            static_pods::update_images(api, self.cluster, self.bundle).await?;
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
        self.swap_kubelet(api).await?;
        let Some(own) = &self.own else {
            return Ok(());
        };
        (self.progress)("waiting for the control plane, DNS and the proxies".into());
        let settled = settle_for(own, machine.name, OBSERVED_WITHIN);
        try_join(settled, self.rolled_out(api)).await.map(drop)
    }

    /// Waits until the cluster reports that the new parts run: kubeadm checks
    /// there whether all control plane machines have them, and it is time for
    /// what runs everywhere.
    async fn shows(&self, own: &Api) -> Result<(), DriverError> {
        let (name, tag) = (self.machine.name, format!(":{}", self.to));
        let path = format!("{SYSTEM}/pods/kube-apiserver-{name}");
        until(
            "waiting for the new API server to be announced",
            name,
            SETTLE_TIMEOUT,
            || async {
                let pod = own.get::<Value>(&path).await;
                let pod = pod.map_err(|error| error.to_string())?;
                let image = &pod["spec"]["containers"][0]["image"];
                let image = image.as_str().unwrap_or_default();
                match image.ends_with(&tag) {
                    true => Ok(()),
                    false => Err(format!("the cluster still knows {image}")),
                }
            },
        )
        .await
    }

    /// The bundle and its images on a machine.
    async fn bundle_transfer(&self, machine: Machine<'_>) -> Result<(), DriverError> {
        bundle_transfer::bundle_transfer(self.bundle, self.to, machine, self.progress).await?;
        install::import(machine, self.to).await
    }

    /// The same on all, before anything is touched: with the control plane,
    /// kubeadm changes what runs on every machine. One that does not answer
    /// has it when its turn comes.
    async fn transfer_everywhere(&self, api: &Api) -> Result<(), DriverError> {
        let nodes: List<Node> = api.get("/api/v1/nodes").await?;
        (self.progress)("bringing images to all machines".into());
        for some in nodes.items.chunks(MAX_CONCURRENT) {
            let brought = some.iter().map(|it| self.try_transfer(&it.metadata.name));
            join_all(brought).await;
        }
        Ok(())
    }

    async fn try_transfer(&self, name: &str) {
        let remote_exec = self.machine.remote_exec;
        if let Err(error) = self.bundle_transfer(Machine { remote_exec, name }).await {
            tracing::warn!(machine = name, %error, "images of the new version not transferred to the machine yet");
        }
    }

    async fn swap_kubelet(&self, api: &Api) -> Result<(), DriverError> {
        let (to, machine) = (self.to.to_string(), self.machine);
        (self.progress)(format!("starting the kubelet of {to}"));
        if self.own.is_none() {
            machine.stop("kubelet").await?;
            let version = format!("{HERE}/version");
            machine.replace("put", &version, to.clone().into()).await?;
        }
        // Pods outlive it, and the old bundle may go one day.
        machine.stop("containerd").await?;
        install::containerd(machine).await?;
        let command = format!("/bin/sh {HERE}/run-kubelet");
        machine.supervise("kubelet", &command).await?;
        wait_for(api, machine.name, |node| {
            node.is_ready() && node.status.node_info.kubelet_version == to
        })
        .await
    }

    /// Waits until what kubeadm runs in the cluster is there in its new form.
    /// That also shows that the new controllers and the scheduler work: without
    /// them nothing that is moved off a machine would come up elsewhere, and
    /// its loss would not be noticed.
    async fn rolled_out(&self, api: &Api) -> Result<(), DriverError> {
        for (path, wanted) in ADD_ONS {
            let path = format!("/apis/apps/v1/namespaces/kube-system/{path}");
            let what = format!("waiting for {path}");
            until(&what, self.machine.name, SETTLE_TIMEOUT, || async {
                match api.get::<Value>(&path).await {
                    Ok(found) if is_rolled_out(&found, wanted) => Ok(()),
                    Ok(found) => Err(found["status"].to_string()),
                    // The cluster has something else in its place.
                    Err(error) if error.is(StatusCode::NOT_FOUND) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            })
            .await?;
        }
        Ok(())
    }
}

/// Whether all that should be there of a workload is there in its new form.
fn is_rolled_out(found: &Value, wanted: &str) -> bool {
    let number = |path: &str| found.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let (wanted, status) = (number(wanted), &found["status"]);
    let counted = |names: [&str; 2]| names.map(|name| status[name].as_i64().unwrap_or(0));
    let updated = counted(["updatedNumberScheduled", "updatedReplicas"]);
    let there = counted(["numberAvailable", "availableReplicas"]);
    number("/status/observedGeneration") >= number("/metadata/generation")
        && updated.iter().sum::<i64>() >= wanted
        && there.iter().sum::<i64>() >= wanted
}

/// The kubelet starts etcd and the API server again a moment after the request:
/// the next step waits until they have run for a while. `own` is the API server
/// of this very machine.
pub(super) async fn settle(own: &Api, machine: &str) -> Result<(), DriverError> {
    settle_for(own, machine, STABLE_FOR).await
}

async fn settle_for(own: &Api, machine: &str, steady: Duration) -> Result<(), DriverError> {
    let end = Instant::now() + SETTLE_TIMEOUT;
    let mut since = Instant::now();
    loop {
        let well = is_well(own, machine).await;
        match &well {
            Ok(()) if since.elapsed() >= steady => return Ok(()),
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
        tokio::time::sleep(RETRY_INTERVAL).await;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn add_on_rollout_completes_when_all_pods_are_updated() {
        let (set, replicas) = (ADD_ONS[0].1, ADD_ONS[1].1);
        let proxy = |seen: i64, updated: i64, there: i64| {
            json!({"metadata": {"generation": 2}, "status": {
                "observedGeneration": seen, "desiredNumberScheduled": 3,
                "updatedNumberScheduled": updated, "numberAvailable": there,
            }})
        };
        assert!(is_rolled_out(&proxy(2, 3, 3), set));
        assert!(!is_rolled_out(&proxy(1, 3, 3), set));
        assert!(!is_rolled_out(&proxy(2, 2, 3), set));
        assert!(!is_rolled_out(&proxy(2, 3, 2), set));
        let names = |status: Value| json!({"metadata": {"generation": 1}, "spec": {"replicas": 2}, "status": status});
        let whole = json!({"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2});
        assert!(is_rolled_out(&names(whole), replicas));
        let half = json!({"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 2});
        assert!(!is_rolled_out(&names(half), replicas));
    }
}
