//! `strata cluster-agent`: what runs beside the kubelet on every machine of a
//! Kubernetes cluster. Strata starts it, no person does, so it is not among the
//! documented commands. It is apart from them for another reason too: the code
//! that parses all of them would stay in memory for as long as the agent runs,
//! and it runs on every machine. One thread is enough for it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use strata_cluster_agent::Agent;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

const NAME: &str = "cluster-agent";

/// Serve a machine of a Kubernetes cluster; started by Strata itself
#[derive(Parser)]
#[command(name = "strata cluster-agent", bin_name = "strata cluster-agent")]
pub(crate) struct ClusterAgentArguments {
    /// Configuration file, which is watched
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// The arguments, when this process is to be an agent.
pub(crate) fn asked_for() -> Option<ClusterAgentArguments> {
    let mut words = std::env::args_os().skip(1);
    let asked = words.next().is_some_and(|word| word == NAME);
    asked.then(|| ClusterAgentArguments::parse_from([NAME.into()].into_iter().chain(words)))
}

/// Runs until a shutdown signal. What it created for pods is kept.
pub(crate) fn run(arguments: &ClusterAgentArguments) -> ExitCode {
    start_logging();
    match run_until_told(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "cannot run the agent");
            ExitCode::FAILURE
        }
    }
}

fn run_until_told(
    arguments: &ClusterAgentArguments,
) -> Result<(), Box<dyn std::error::Error + 'static>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            Err(error) = Agent::new(&arguments.config).run() => Err(error.into()),
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

/// To standard error, which is kept where the agent is started.
fn start_logging() {
    let wanted = std::env::var("STRATA_LOG").ok();
    let level = wanted.and_then(|level| level.parse().ok());
    let _ = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .with_ansi(false)
        .with_target(true)
        .with_writer(std::io::stderr)
        .try_init();
}
