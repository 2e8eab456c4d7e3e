//! A client that knows the published document and nothing else, written in
//! Python with grpcio from PyPI, drives every call of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::{POOL, World};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The interpreter with what the client needs; none where it cannot be had.
#[allow(clippy::print_stderr)]
fn python() -> Option<String> {
    let made = Command::new(repository("scripts/python-tools"))
        .stdin(Stdio::null())
        .output()
        .expect("the script can be run");
    if made.status.success() {
        return Some(String::from_utf8_lossy(&made.stdout).trim().to_owned());
    }
    let why = String::from_utf8_lossy(&made.stderr).into_owned();
    // A machine may have no way to where Python packages are.
    eprintln!("skipped, nothing is proven: {why}");
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_published_document_drives_every_call() {
    let made = tokio::task::spawn_blocking(python).await;
    let Some(python) = made.expect("looking for Python does not panic") else {
        return;
    };
    let world = World::start(POOL).await;
    let mut drive = Command::new(python);
    drive
        .arg(repository("tests/python/operations.py"))
        .arg(world.near().to_string())
        .arg(world.credentials())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    let driven = tokio::task::spawn_blocking(move || drive.output()).await;
    let driven = driven
        .expect("driving does not panic")
        .expect("Python runs");
    let said = String::from_utf8_lossy(&driven.stdout).into_owned();
    assert!(
        driven.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&driven.stderr)
    );
    let all = [
        "ListHypervisors",
        "ExpandStorage",
        "ShrinkStorage",
        "CreateHypervisor",
        "CreateBackup",
        "DestroyHypervisor",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), all);
}
