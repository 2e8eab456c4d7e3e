//! What a machine gets before kubeadm comes: scripts, the bundle, containers
//! and the agent.

use std::time::Duration;

use strata_types::cluster::{KubernetesVersion, Member};

use super::archive::Archive;
use super::machine::{HERE, Machine, Script};
use super::{agent, bundle_transfer, config, static_pods};
use crate::catalogue::Bundle;
use crate::{ClusterFacts, DriverError};

/// On a slow disk, with others at the same time.
const IMPORT: Duration = Duration::from_secs(5 * 60);
const PROGRAM: u32 = 0o755;

/// Our scripts, by the names that they have on the machine.
const SCRIPTS: [(&str, &str); 17] = [
    ("prepare", include_str!("scripts/prepare")),
    ("run", include_str!("scripts/run")),
    ("run-containerd", include_str!("scripts/run-containerd")),
    ("run-agent", include_str!("scripts/run-agent")),
    ("run-kubelet", include_str!("scripts/run-kubelet")),
    ("own-size", include_str!("scripts/own-size")),
    // Machines of earlier releases have it under this name.
    ("introduce", include_str!("scripts/update-peers")),
    (
        "wait-for-containerd",
        include_str!("scripts/wait-for-containerd"),
    ),
    ("import", include_str!("scripts/import")),
    ("with-config", include_str!("scripts/with-config")),
    ("state", include_str!("scripts/state")),
    ("reset", include_str!("scripts/reset")),
    (static_pods::NAME, include_str!("scripts/swap")),
    ("upgrade", include_str!("scripts/upgrade")),
    ("restore-data", include_str!("scripts/restore-data")),
    ("restore-swap", include_str!("scripts/restore-swap")),
    ("renew", include_str!("scripts/renew")),
];

pub(super) type Progress<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Everything below Kubernetes, running.
pub(super) async fn install(
    cluster: &ClusterFacts,
    member: &Member,
    bundle: &Bundle,
    machine: Machine<'_>,
    progress: Progress<'_>,
) -> Result<(), DriverError> {
    progress("copying files to the machine".into());
    let files = files(bundle);
    let version = member.version.to_string();
    let files = files.file(&format!("{HERE}/version"), 0o644, version);
    machine.put("put", files).await?;
    bundle_transfer::bundle_transfer(bundle, member.version, machine, progress).await?;
    progress("starting containerd and the agent".into());
    agent::write_peers(cluster, member, machine).await?;
    let program = machine.remote_exec.program(machine.name).await?;
    let agent = format!("/bin/sh {HERE}/run-agent {program}");
    machine.supervise("agent", &agent).await?;
    containerd(machine).await
}

pub(super) async fn containerd(machine: Machine<'_>) -> Result<(), DriverError> {
    let command = format!("/bin/sh {HERE}/run-containerd");
    machine.supervise("containerd", &command).await
}

/// The images of a version that the machine has the bundle of.
pub(super) async fn import(
    machine: Machine<'_>,
    version: KubernetesVersion,
) -> Result<(), DriverError> {
    let import = Script {
        line: &format!("import {version}"),
        what: "importing images",
        input: None,
        timeout: IMPORT,
        passing: true,
    };
    machine.script(import).await.map(drop)
}

/// All but the version, which an upgrade changes last.
pub(super) fn files(bundle: &Bundle) -> Archive {
    let mut files = Archive::default();
    for (name, text) in SCRIPTS {
        files = files.file(&format!("{HERE}/{name}"), PROGRAM, text);
    }
    let pause = format!("{}/pause:{}", config::REPOSITORY, bundle.pause);
    let containerd = include_str!("scripts/containerd.toml").replace("@PAUSE@", &pause);
    files.file(&format!("{HERE}/containerd.toml"), 0o644, containerd)
}
