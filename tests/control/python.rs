//! A client that knows the published documents and nothing else, written in
//! Python with grpcio from PyPI, drives every call of them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster;

/// The interpreter with what the client needs; none where it cannot be had.
#[allow(clippy::print_stderr)]
fn python() -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/python-tools");
    let made = Command::new(script)
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
async fn a_client_of_the_published_documents_drives_every_call() {
    let made = tokio::task::spawn_blocking(python).await;
    let Some(python) = made.expect("looking for Python does not panic") else {
        return;
    };
    let cluster = cluster(0).await;
    let node = cluster.credentials("node", "seed-py").await;
    let other = cluster.credentials("node", "seed-other").await;
    let admin = cluster.server.data_dir().join("client");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/drive.py");
    let mut drive = Command::new(python);
    drive
        .arg(script)
        .arg(cluster.near().to_string())
        .args([&admin, &node, &other])
        .arg(&cluster.image)
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
        "NodeService.Register",
        "NodeService.Status",
        "InstanceService.Create",
        "SchedulerService.setInstanceStatus",
        "SchedulerService.setNodeStatus",
        "InstanceService.Stop",
        "InstanceService.Start",
        "InstanceService.Destroy",
        "NodeService.Unregister",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), all);
    cluster.settles(&[], &[]).await;
}
