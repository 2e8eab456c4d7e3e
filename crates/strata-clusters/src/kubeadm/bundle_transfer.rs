//! The bundle of a version on a machine. A nested node sees the bundles of the
//! host. To any other all of it is sent, a mebibyte at a time: half a gigabyte,
//! once per version.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use strata_types::cluster::KubernetesVersion;

use super::install::Progress;
use super::machine::{HERE, Machine};
use crate::DriverError;
use crate::catalogue::Bundle;

/// What one call carries of a file.
const CHUNK_BYTES: u64 = 1 << 20;
/// How often the progress is reported.
const PROGRESS_BYTES: u64 = 16 << 20;
/// What a slow disk may take for all of it.
const FLUSH_BYTES: Duration = Duration::from_secs(5 * 60);
/// Marks that all of it is there: built last, and sent last.
const LAST: &str = "bundle.json";

/// Something in a bundle, by its path there.
enum Item {
    File { name: String, bytes: u64 },
    Link { name: String, to: String },
}

/// Sees to it that the machine has the bundle.
pub(super) async fn bundle_transfer(
    bundle: &Bundle,
    version: KubernetesVersion,
    machine: Machine<'_>,
    progress: Progress<'_>,
) -> Result<(), DriverError> {
    let here = format!("{HERE}/bundles/{version}");
    let around = format!("/run/strata/kubernetes/{version}");
    let look = format!("test -e {around}/{LAST} -o -e {here}/{LAST} && echo here || echo missing");
    let seen = machine.shell("look", &look, None).await?;
    if seen.trim_end().ends_with("here") {
        return Ok(());
    }
    let again = format!("rm -rf {here} && mkdir -p {here}");
    machine.shell("send", &again, None).await?;
    let items = items(&bundle.dir)?;
    let total: u64 = items.iter().map(Item::bytes).sum();
    let mut sent = 0;
    for item in items {
        if item.is_last() {
            // It marks that all of it is there, also after a power cut.
            let flush = format!("sync -f {here}");
            machine.shell_within("send", &flush, FLUSH_BYTES).await?;
        }
        let (name, bytes) = match item {
            Item::Link { name, to } => {
                let text =
                    format!("mkdir -p $(dirname {here}/{name}) && ln -sfn {to} {here}/{name}");
                machine.shell("send", &text, None).await?;
                continue;
            }
            Item::File { name, bytes } => (name, bytes),
        };
        let reported = |done: u64| {
            if done.is_multiple_of(PROGRESS_BYTES) {
                let (done, total) = ((sent + done) >> 20, total >> 20);
                progress(format!(
                    "sending Kubernetes {version}: {done} of {total} MiB"
                ));
            }
        };
        let to = format!("{here}/{name}");
        send(
            machine,
            &bundle.dir.join(&name),
            &to,
            mode(&name),
            &reported,
        )
        .await?;
        sent += bytes;
    }
    Ok(())
}

/// Sends a file in pieces. It is whole only when this has come back.
pub(super) async fn send(
    machine: Machine<'_>,
    from: &Path,
    to: &str,
    mode: u32,
    reported: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), DriverError> {
    let failed = |error| files_error(from, &error);
    let mut file = fs::File::open(from).map_err(failed)?;
    let begin = format!("umask 077; mkdir -p $(dirname {to}) && : >{to} && chmod {mode:o} {to}");
    machine.shell("send", &begin, None).await?;
    let mut done = 0;
    loop {
        let mut piece = Vec::new();
        let read = file.by_ref().take(CHUNK_BYTES).read_to_end(&mut piece);
        done += match read.map_err(failed)? {
            0 => return Ok(()),
            more => more as u64,
        };
        let more = format!("cat >>{to}");
        machine.shell("send", &more, Some(piece)).await?;
        reported(done);
    }
}

fn mode(name: &str) -> u32 {
    let programs = ["bin/", "cni/", "nft/"];
    match programs.iter().any(|dir| name.starts_with(dir)) {
        true => 0o755,
        false => 0o644,
    }
}

impl Item {
    fn bytes(&self) -> u64 {
        match self {
            Self::File { bytes, .. } => *bytes,
            Self::Link { .. } => 0,
        }
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::File { name, .. } if name == LAST)
    }
}

/// All of a directory, that file last.
fn items(dir: &Path) -> Result<Vec<Item>, DriverError> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(at) = folders.pop() {
        let failed = |error| files_error(&at, &error);
        for entry in fs::read_dir(&at).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let about = path.symlink_metadata().map_err(failed)?;
            let name = path.strip_prefix(dir).unwrap_or(&path);
            let name = name.to_string_lossy().into_owned();
            if about.is_dir() {
                folders.push(path);
            } else if about.is_symlink() {
                let to = fs::read_link(&path).map_err(failed)?;
                let to = to.to_string_lossy().into_owned();
                found.push(Item::Link { name, to });
            } else {
                let bytes = about.len();
                found.push(Item::File { name, bytes });
            }
        }
    }
    found.sort_by_key(Item::is_last);
    Ok(found)
}

pub(super) fn files_error(path: &Path, error: &std::io::Error) -> DriverError {
    DriverError::Files {
        what: path.display().to_string(),
        why: error.to_string(),
    }
}
