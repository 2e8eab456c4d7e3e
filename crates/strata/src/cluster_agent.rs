//! `strata cluster-agent`: what runs beside the kubelet on every machine of a
//! Kubernetes cluster. One thread is enough for it, and keeps it small.

use strata_cli::{Exit, Failure, Result};
use strata_cluster_agent::Agent;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

use crate::args::ClusterAgentArguments;

/// Runs until it is told to end. What it made for pods stays.
pub(crate) fn run(arguments: &ClusterAgentArguments) -> Result {
    let failed =
        |error: &dyn std::error::Error| Failure::new(Exit::Unexpected, format!("agent: {error}"));
    start_logging();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(&error))?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| failed(&error))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| failed(&error))?;
        tokio::select! {
            Err(error) = Agent::new(&arguments.config).run() => Err(failed(&error)),
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

/// To standard error, which is kept where the agent is started. Without the
/// filters of the daemons: they would take more memory than all the rest.
fn start_logging() {
    let wanted = std::env::var("STRATA_LOG").ok();
    let level = wanted.and_then(|level| level.parse().ok());
    let _ = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .with_ansi(false)
        .with_target(false)
        .with_writer(std::io::stderr)
        .try_init();
}
