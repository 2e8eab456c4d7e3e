//! Attacks, run for real: what a hostile image, caller, node, guest or peer
//! tries to get beyond what it was given, with everybody else's work measured
//! meanwhile. Each file is one attacker's subject.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audit;
mod audit_sessions;
mod audit_subject;
mod budgets;
mod cell_environment;
mod certificates;
mod client;
mod emulator;
mod escape;
mod fork_bomb;
mod host_boundary;
mod host_ports;
mod images;
mod impostors;
mod ledger;
mod limited_view;
mod node_flood;
mod node_labels;
mod one_token;
mod operation_cancel;
mod operator;
mod overlay;
mod paths;
mod privileged_exec;
mod project_network;
mod project_world;
mod quotas;
mod restored;
mod route_matrix;
mod secrets;
mod silent;
mod strangers;
mod streams;
mod watches;

use std::time::Duration;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
/// How long anything may take on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(90);
