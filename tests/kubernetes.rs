//! Clusters, end to end: real Kubernetes on nested nodes, used
//! with its own kubectl, scaled, upgraded, restored, broken and healed while a
//! client asks on. Each test has a control plane of its own, as `strata up`
//! makes it, in a network of its own; one runs after the other, because each
//! takes all that the machine has.
//!
//! They need Kubernetes of two minor versions in the cache, which
//! `make test-clusters` builds where that can be done.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bundles;
mod certificates;
mod cluster_lifecycle;
mod hardening;
mod kubectl;
mod machine_loss;
mod python;
mod request_client;
mod roll_back;
mod upgrade;
mod virtual_machine;
mod web_workload;
mod world;

const STRATA: &str = env!("CARGO_BIN_EXE_strata");

/// Says it whether or not the test's output is captured.
fn tell(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "kubernetes: {text}");
}
