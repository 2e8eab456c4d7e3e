//! What is left on disk, and who could read or change it.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use strata_testkit::Daemon;
use strata_testkit::observe::GetAuraeDaemonLogStreamRequest;

use crate::access::{STRATA, certificate, token};

/// Everything below a directory, itself included.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_owned()];
    let mut next = 0;
    while next < all.len() {
        if let Ok(entries) = fs::read_dir(&all[next]) {
            all.extend(entries.flatten().map(|entry| entry.path()));
        }
        next += 1;
    }
    all
}

/// The binary, started by somebody whose files are open to all.
fn careless(dir: &Path) -> PathBuf {
    let script = dir.join("strata");
    let text = format!("#!/bin/sh\numask 0\nexec {STRATA} \"$@\"\n");
    fs::write(&script, text).expect("a script can be written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it can be run");
    script
}

/// A daemon that has done a bit of everything.
async fn used() -> (tempfile::TempDir, Daemon) {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let daemon = Daemon::build(careless(dir.path())).start().await;
    let node = daemon.node().await;
    for cell in ["web", "web/in"] {
        node.allocate(cell).await.expect("a cell can be made");
        node.shell(cell, "main", "echo out; echo err >&2").await;
        let started = node.start(cell, "more", "sleep 1000").await;
        started.expect("it can be started");
    }
    token(&daemon, "viewer").await;
    certificate(&daemon, "operator").await;
    (dir, daemon)
}

#[tokio::test(flavor = "multi_thread")]
async fn data_directory_is_not_writable_and_secrets_not_readable_by_others() {
    let (_dir, daemon) = used().await;
    let mut all = walk(&daemon.data_dir());
    all.extend(walk(&daemon.scratch().join("as-operator")));
    assert!(all.len() > 20, "{all:?}");
    let mut open = Vec::new();
    for path in &all {
        // A run's files come and go.
        let Ok(metadata) = fs::symlink_metadata(path) else {
            continue;
        };
        let (kind, mode) = (metadata.file_type(), metadata.permissions().mode());
        // Every link has all bits, which mean nothing.
        if kind.is_symlink() {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_secret = name.ends_with(".key")
            || name.contains("token")
            || path.ends_with("ca/ca.key")
            || path.components().any(|part| part.as_os_str() == "client")
            || kind.is_socket();
        let forbidden = if is_secret { 0o077 } else { 0o022 };
        if mode & forbidden != 0 {
            open.push(format!("{:o} {}", mode & 0o777, path.display()));
        }
    }
    assert!(open.is_empty(), "{open:#?}");
    let data_dir = fs::metadata(daemon.data_dir()).unwrap();
    assert_eq!(data_dir.permissions().mode() & 0o777, 0o700);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_kept_hashed_and_never_logged() {
    let (daemon, node) = Daemon::up(STRATA).await;
    let mut secrets = vec![
        token(&daemon, "admin").await,
        token(&daemon, "viewer").await,
    ];
    let join = ["token", "create", "--name", "n", "--join"];
    secrets.push(
        daemon
            .cli_with_endpoints()
            .run(join)
            .await
            .ok()
            .trim()
            .to_owned(),
    );
    let local = daemon.data_dir().join("client/token");
    secrets.push(fs::read_to_string(&local).unwrap().trim().to_owned());
    // Used, rightly and wrongly.
    let port = daemon.endpoints().server.unwrap();
    let ca = daemon.data_dir().join("client/ca.crt");
    let client = strata_testkit::Https::new(&port, &ca, None);
    for secret in &secrets {
        for bearer in [format!("Bearer {secret}"), format!("Basic {secret}")] {
            let _ = client.get("/version", &[("authorization", &bearer)]);
        }
    }
    let request = GetAuraeDaemonLogStreamRequest {};
    let mut observe = node.client().observe();
    observe.get_aurae_daemon_log_stream(request).await.unwrap();
    for secret in &secrets {
        assert!(secret.len() > 20, "a secret is long");
        assert!(!daemon.log().contains(secret.as_str()));
        // The part that only its holder knows must be nowhere else either.
        let unknown = &secret[secret.len() - 16..];
        for path in walk(&daemon.data_dir())
            .iter()
            .filter(|path| **path != local)
        {
            let bytes = fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(unknown), "{}", path.display());
        }
    }
}
