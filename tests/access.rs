//! Who gets in and who may do what: strangers nowhere, everybody else no
//! further than their role; and nothing secret left lying about.

mod ca_rotation;
mod ca_rotation_kills;
mod files;
mod join;
mod roles;
mod socket;
mod stock_clients;
mod strangers;

use std::path::PathBuf;

use strata_testkit::Daemon;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// A folder with a certificate of this role.
async fn certificate(daemon: &Daemon, role: &str) -> PathBuf {
    let folder = daemon.scratch().join(format!("as-{role}"));
    let out = folder.display().to_string();
    daemon
        .told_cli()
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
    folder
}

/// An API token of this role.
async fn token(daemon: &Daemon, role: &str) -> String {
    let token = daemon
        .told_cli()
        .run(["token", "create", "--name", role, "--role", role])
        .await
        .ok();
    token.trim().to_owned()
}
