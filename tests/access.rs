//! Who gets in and who may do what: untrusted parties nowhere, everybody else no
//! further than their role; and nothing secret left lying about.

mod ca_rotation;
mod ca_rotation_kills;
mod file_permissions;
mod join;
mod roles;
mod socket;
mod stock_clients;
mod unauthenticated_clients;

use std::path::PathBuf;

use strata_testkit::Daemon;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// A directory with a certificate of this role.
async fn certificate(daemon: &Daemon, role: &str) -> PathBuf {
    let dir = daemon.scratch().join(format!("as-{role}"));
    let out = dir.display().to_string();
    daemon
        .cli_with_endpoints()
        .run([
            "certificate",
            "issue",
            "--role",
            role,
            "--name",
            role,
            "--out",
            &out,
        ])
        .await
        .ok();
    dir
}

/// An API token of this role.
async fn token(daemon: &Daemon, role: &str) -> String {
    let token = daemon
        .cli_with_endpoints()
        .run(["token", "create", "--name", role, "--role", role])
        .await
        .ok();
    token.trim().to_owned()
}
