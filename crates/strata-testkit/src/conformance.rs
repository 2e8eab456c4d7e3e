//! The conformance suite: Python files that know the text of the published
//! documents, run against the real binary in a network namespace of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;

use crate::cluster::scripted;
use crate::skip::skip;
use crate::{Daemon, NetworkNamespace, python};

/// Where the files of the suite are.
fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

/// Which nodes run the instances of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The built-in node of `strata up`.
    Strata,
    /// None of ours: `strata server` alone, and a node written from the
    /// published documents.
    Published,
}

/// Starts the product with this configuration and runs a file of
/// `tests/conformance` against it. Returns the result of every case.
///
/// # Panics
/// When a case fails.
pub async fn conformance(binary: &str, config: &str, nodes: Nodes, file: &str) {
    let venv = match python::venv("conformance") {
        Ok(venv) => venv,
        Err(why) => return skip(why),
    };
    let network = NetworkNamespace::new();
    let role = match nodes {
        Nodes::Strata => "up",
        Nodes::Published => "server",
    };
    let daemon = Daemon::build(binary)
        .role(role)
        .config(config)
        .within(&network)
        .start()
        .await;
    let world = describe(&daemon, binary, nodes);
    let mut command = network.command([venv.join("bin/python").display().to_string().as_str()]);
    command
        .arg(suite().join(file))
        .arg(world)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let ran = ran.expect("running does not panic").expect("Python runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    // The runner shows it where the test fails.
    std::io::Write::write_all(&mut std::io::stdout(), said.as_bytes()).expect("stdout is there");
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success(),
        "{file}: {}\n{said}\n{complained}\n{}",
        ran.status,
        daemon.log()
    );
}

/// The file that gives the suite all addresses.
fn describe(daemon: &Daemon, binary: &str, nodes: Nodes) -> PathBuf {
    let endpoints = daemon.endpoints();
    let server = endpoints.server.expect("there is a server");
    let world = json!({
        "binary": binary,
        "dataDir": daemon.data_dir(),
        "address": server.trim_start_matches("https://"),
        "socket": endpoints.node_socket.unwrap_or_default(),
        "image": scripted(&daemon.scratch()),
        "scratch": daemon.scratch(),
        "nodes": match nodes {
            Nodes::Strata => "strata",
            Nodes::Published => "published",
        },
    });
    let file = daemon.scratch().join("world.json");
    std::fs::write(&file, world.to_string()).expect("a file can be written");
    file
}
