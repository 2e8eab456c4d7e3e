//! How a machine gets into its cluster: by `init` the first, by `join` all
//! others. Both can be repeated: a machine that is in stays, and one that came
//! half way is reset first.

use std::time::Duration;

use serde_json::json;
use strata_types::Secret;
use strata_types::cluster::{ClusterRole, Member};
use tokio::time::Instant;

use super::api::Api;
use super::apiserver::{self, encryption};
use super::archive::Archive;
use super::etcd::Etcd;
use super::install::Progress;
use super::machine::{HERE, Machine, Script};
use super::objects::Node;
use super::token::Token;
use super::{config, pki, static_pods};
use crate::catalogue::Bundle;
use crate::{ClusterFacts, DriverError};

/// What kubeadm may take, on a machine that shares its cpus.
const KUBEADM: Duration = Duration::from_secs(8 * 60);
const RESET: Duration = Duration::from_secs(2 * 60);
/// How long a node may take to be ready once it is in.
const READY: Duration = Duration::from_secs(3 * 60);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// The name by which kubeadm runs: its script's.
pub(super) const KUBEADM_RUN: &str = "with-config";
/// The pool that a node is of.
const POOL: &str = "strata.dev/pool";

/// A machine that is to enter, and what it takes.
pub(super) struct JoinContext<'a> {
    pub(super) cluster: &'a ClusterFacts,
    pub(super) member: &'a Member,
    pub(super) machine: Machine<'a>,
    pub(super) progress: Progress<'a>,
}

impl JoinContext<'_> {
    /// As the first: `api` is that of this very machine.
    pub(super) async fn init(&self, api: &Api, bundle: &Bundle) -> Result<(), DriverError> {
        if !self.is_in(None).await? {
            self.put_cas().await?;
            self.kubelet().await?;
            (self.progress)("kubeadm init".into());
            let token = Token::new();
            let text = config::init(self.cluster, self.member, bundle, &token.text());
            // Its output is a log that viewers may read.
            let line = "init --skip-token-print";
            self.kubeadm(line, "kubeadm init", text).await?;
            token.remove_member(api).await?;
        }
        self.kubelet().await
    }

    /// As a further one: `api` and `etcd` are those of the others.
    pub(super) async fn join(&self, api: &Api, etcd: &Etcd) -> Result<(), DriverError> {
        let controls = self.member.role == ClusterRole::ControlPlane;
        if !self.is_in(Some((api, etcd))).await? {
            if controls {
                self.put_cas().await?;
                // kubeadm reads there what an API server is started with.
                static_pods::update_api_servers(api, self.cluster).await?;
            }
            self.kubelet().await?;
            (self.progress)("kubeadm join".into());
            let token = Token::new();
            token.announce(api, self.member.machine.as_str()).await?;
            let joined = self.join_with(&token.text()).await;
            // Also when it failed: a holder of the token could join.
            let forgotten = token.remove_member(api).await;
            joined?;
            if let Err(error) = forgotten {
                tracing::warn!(machine = %self.member.machine, %error,
                    "join token not deleted; it expires in 15 minutes");
            }
        }
        self.kubelet().await
    }

    /// With the token kubeadm reads the cluster's configuration; the kubelet's
    /// certificate comes from here, where the CA is. kubeadm would request it
    /// by the token otherwise, and in a new cluster it takes seconds until
    /// there is a signer.
    async fn join_with(&self, token: &Secret) -> Result<(), DriverError> {
        let ca = pki::of(&self.cluster.secrets, "ca.crt")?;
        let name = self.member.machine.as_str();
        let identity = pki::node(&self.cluster.secrets, name)?;
        let pem = format!("{}{}", identity.certificate, identity.key.expose());
        let files = Archive::default()
            .file(config::DISCOVERY, 0o600, config::discovery(ca))
            .file(config::KUBELET_BOOTSTRAP, 0o600, pem)
            .link(config::KUBELET_CLIENT, config::KUBELET_BOOTSTRAP)
            .file(
                &format!("{HERE}/etc/kubelet.conf"),
                0o600,
                config::kubelet_access(ca, self.member),
            );
        self.machine.put("put", files).await?;
        let text = config::join(self.cluster, self.member, token);
        self.kubeadm("join", "kubeadm join", text).await
    }

    /// Whether it is in already. What is left of an attempt that did not end is
    /// undone, also in the etcd of the others.
    async fn is_in(&self, others: Option<(&Api, &Etcd)>) -> Result<bool, DriverError> {
        // One that an earlier try left behind may still be at it.
        self.machine.stop(KUBEADM_RUN).await?;
        let state = self.machine.short("state", "checking the machine").await?;
        let state = state.trim().lines().last().unwrap_or_default();
        if state == "done" {
            return Ok(true);
        }
        let half = state == "half";
        if half {
            (self.progress)("taking back what was begun".into());
            self.machine.stop("kubelet").await?;
        }
        if let Some((api, etcd)) = others {
            let (member, name) = (self.member, self.member.machine.as_str());
            if member.role == ClusterRole::ControlPlane {
                etcd.remove(name, &member.address).await?;
            }
            if half {
                // One that is ready could not join a second time.
                api.delete(&format!("/api/v1/nodes/{name}")).await?;
            }
        }
        if half {
            let reset = Script {
                line: "reset",
                what: "kubeadm reset",
                input: None,
                timeout: RESET,
                passing: true,
            };
            self.machine.script(reset).await?;
        }
        Ok(false)
    }

    /// The CAs, the keys and the configuration of API servers, which
    /// control planes have in common.
    async fn put_cas(&self) -> Result<(), DriverError> {
        let mut files = apiserver::files(self.cluster, Archive::default());
        let secrets = self.cluster.secrets.iter();
        for (name, pem) in secrets.filter(|(name, _)| !encryption::is_key(name)) {
            let public = name.ends_with(".crt") || name.ends_with(".pub");
            let mode = if public { 0o644 } else { 0o600 };
            files = files.file(&format!("{HERE}/etc/pki/{name}"), mode, pem.expose());
        }
        self.machine.put("put", files).await
    }

    async fn kubelet(&self) -> Result<(), DriverError> {
        let command = format!("/bin/sh {HERE}/run-kubelet");
        self.machine.supervise("kubelet", &command).await
    }

    async fn kubeadm(&self, word: &str, what: &str, config: String) -> Result<(), DriverError> {
        let script = Script {
            line: &format!("{KUBEADM_RUN} {word}"),
            what,
            input: Some(config.into_bytes()),
            timeout: KUBEADM,
            passing: true,
        };
        self.machine.script(script).await.map(drop)
    }

    /// Waits for the node and says whose it is.
    pub(super) async fn ready(&self, api: &Api) -> Result<(), DriverError> {
        (self.progress)("waiting for the node to be ready".into());
        let name = self.member.machine.as_str();
        wait_for(api, name, Node::is_ready).await?;
        let labels = &self.member.labels;
        let change = json!({"metadata": {
            "labels": labels,
            "annotations": {POOL: self.member.pool},
        }});
        Ok(api.patch(&format!("/api/v1/nodes/{name}"), &change).await?)
    }
}

/// Waits until a node is as it should be.
pub(super) async fn wait_for(
    api: &Api,
    name: &str,
    is_so: impl Fn(&Node) -> bool,
) -> Result<(), DriverError> {
    let path = format!("/api/v1/nodes/{name}");
    until("waiting for the node", name, READY, || async {
        match api.get::<Node>(&path).await {
            Ok(node) if is_so(&node) => Ok(()),
            Ok(node) => Err(super::observe::observed(&node).reason),
            Err(error) => Err(error.to_string()),
        }
    })
    .await
}

/// Polls a condition of a machine for so long; what does not hold
/// by then is the reason why it failed.
pub(super) async fn until<Probed: Future<Output = Result<(), String>>>(
    what: &str,
    machine: &str,
    bound: Duration,
    probe: impl Fn() -> Probed,
) -> Result<(), DriverError> {
    let end = Instant::now() + bound;
    while let Err(why) = probe().await {
        if Instant::now() + RETRY_INTERVAL >= end {
            return Err(DriverError::Failed {
                what: what.to_owned(),
                machine: machine.to_owned(),
                why,
                passing: true,
            });
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    Ok(())
}
