//! Attacks, run for real: what a hostile image, caller, node, guest or peer
//! tries to get beyond what it was given, with everybody else's work measured
//! meanwhile. Each file is one attacker's subject.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audit;
mod audit_sessions;
mod audit_subject;
mod cell_environment;
mod certificates;
mod cores;
mod emulator;
mod escape;
mod findings;
mod fork_bomb;
mod half_sent_requests;
mod host_boundary;
mod host_ports;
mod http2_client;
mod images;
mod impostors;
mod limited_view;
mod load_ledger;
mod node_flood;
mod node_labels;
mod one_token;
mod operation_cancel;
mod operator;
mod overlay;
mod paths;
mod privileged_exec;
mod project_network;
mod project_reuse;
mod project_world;
mod quotas;
mod request_budgets;
mod revocation_after_restore;
mod revoked_streams;
mod route_matrix;
mod secrets;
mod silent_connections;
mod unauthenticated_clients;
mod watches;

use std::time::Duration;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");
/// How long anything may take on a machine that is busy with other tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);
