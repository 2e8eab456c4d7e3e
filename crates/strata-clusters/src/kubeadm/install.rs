//! What a machine gets before kubeadm comes: scripts, the bundle, containers
//! and the agent.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use strata_types::cluster::{KubernetesVersion, Member};

use super::archive::Archive;
use crate::catalogue::Bundle;
use super::machine::{HERE, Machine, Script};
use super::{agent, config};
use crate::{ClusterFacts, DriverError};

/// On a slow disk, with others at the same time.
const IMPORT: Duration = Duration::from_secs(5 * 60);
/// What one call carries of a file.
const PIECE: usize = 1 << 20;
const PROGRAM: u32 = 0o755;

/// Our scripts, by the names that they have on the machine.
const SCRIPTS: [(&str, &str); 14] = [
    ("prepare", include_str!("scripts/prepare")),
    ("run", include_str!("scripts/run")),
    ("run-containerd", include_str!("scripts/run-containerd")),
    ("run-agent", include_str!("scripts/run-agent")),
    ("run-kubelet", include_str!("scripts/run-kubelet")),
    ("introduce", include_str!("scripts/introduce")),
    ("import", include_str!("scripts/import")),
    ("with-config", include_str!("scripts/with-config")),
    ("state", include_str!("scripts/state")),
    ("reset", include_str!("scripts/reset")),
    ("upgrade", include_str!("scripts/upgrade")),
    ("restore-data", include_str!("scripts/restore-data")),
    ("restore-swap", include_str!("scripts/restore-swap")),
    ("renew", include_str!("scripts/renew")),
];

/// The way the progress is told.
pub(super) type Progress<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Everything below Kubernetes, running.
pub(super) async fn install(
    cluster: &ClusterFacts,
    member: &Member,
    bundle: &Bundle,
    machine: Machine<'_>,
    progress: Progress<'_>,
) -> Result<(), DriverError> {
    progress("putting files on the machine".into());
    let files = files(bundle);
    let version = member.version.to_string();
    let files = files.file(&format!("{HERE}/version"), 0o644, version);
    machine.put("put", files).await?;
    bring(bundle, member.version, machine, progress).await?;
    progress("starting containers and the agent".into());
    agent::tell(cluster, member, machine).await?;
    let program = machine.hands.program(machine.name).await?;
    let agent = format!("/bin/sh {HERE}/run-agent {program}");
    machine.supervise("agent", &agent).await?;
    let containerd = format!("/bin/sh {HERE}/run-containerd");
    machine.supervise("containerd", &containerd).await?;
    progress("importing images".into());
    import(machine, member.version).await
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
<<<<<<< HEAD
=======
        .file(
            &format!("{HERE}/version"),
            0o644,
            member.version.to_string(),
        )
>>>>>>> main
}

/// Sees to it that the machine has the bundle. One inside another machine
/// sees those of the machine around; to others all of it is sent, in pieces,
/// `bundle.json` last as it was built.
pub(super) async fn bring(
    bundle: &Bundle,
    version: KubernetesVersion,
    machine: Machine<'_>,
    progress: Progress<'_>,
) -> Result<(), DriverError> {
    let here = format!("{HERE}/bundles/{version}");
    let look = format!(
        "test -e /run/strata/kubernetes/{version}/bundle.json -o -e {here}/bundle.json && echo here || echo missing"
    );
    if machine.shell("look", &look, None).await?.trim() == "here" {
        return Ok(());
    }
    machine
        .shell("look", &format!("rm -rf {here} && mkdir -p {here}"), None)
        .await?;
    let mut names = walk(&bundle.folder)?;
    names.retain(|(name, _)| name != "bundle.json");
    names.push(("bundle.json".into(), None));
    let total: u64 = names
        .iter()
        .map(|(name, link)| match link {
            Some(_) => 0,
            None => std::fs::metadata(bundle.folder.join(name)).map_or(0, |about| about.len()),
        })
        .sum();
    let mut sent = 0;
    for (name, link) in names {
        let to = format!("{here}/{name}");
        if let Some(link) = link {
            let text = format!("mkdir -p $(dirname {to}) && ln -sfn {link} {to}");
            machine.shell("send", &text, None).await?;
            continue;
        }
        let from = bundle.folder.join(&name);
        let mode = if name.starts_with("bin/") || name.starts_with("cni/") {
            PROGRAM
        } else {
            0o644
        };
        let mut file = std::fs::File::open(&from).map_err(|error| files_error(&from, &error))?;
        let text = format!("mkdir -p $(dirname {to}) && : >{to} && chmod {mode:o} {to}");
        machine.shell("send", &text, None).await?;
        loop {
            let mut piece = Vec::with_capacity(PIECE);
            let read = file.by_ref().take(PIECE as u64).read_to_end(&mut piece);
            read.map_err(|error| files_error(&from, &error))?;
            if piece.is_empty() {
                break;
            }
            sent += piece.len() as u64;
            machine
                .shell("send", &format!("cat >>{to}"), Some(piece))
                .await?;
            progress(format!(
                "sending Kubernetes {version}: {} of {} MiB",
                sent >> 20,
                total >> 20
            ));
        }
    }
    Ok(())
}

/// All files of a folder by their paths in it, links with where they lead.
fn walk(folder: &Path) -> Result<Vec<(String, Option<String>)>, DriverError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        let entries = std::fs::read_dir(&at).map_err(|error| files_error(&at, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| files_error(&at, &error))?.path();
            let about = path.symlink_metadata();
            let about = about.map_err(|error| files_error(&path, &error))?;
            let name = path.strip_prefix(folder).unwrap_or(&path);
            let name = name.to_string_lossy().into_owned();
            if about.is_dir() {
                folders.push(path);
            } else if about.is_symlink() {
                let link = std::fs::read_link(&path);
                let link = link.map_err(|error| files_error(&path, &error))?;
                found.push((name, Some(link.to_string_lossy().into_owned())));
            } else {
                found.push((name, None));
            }
        }
    }
    Ok(found)
}

pub(super) fn files_error(path: &Path, error: &std::io::Error) -> DriverError {
    DriverError::Files {
        what: path.display().to_string(),
        why: error.to_string(),
    }
}
