//! The agent as a whole.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::watch;

use crate::{api_listener, follow, pods};

/// How often everything is reconciled without a change.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);

/// Applies its file, for as long as it runs.
#[derive(Clone, Debug)]
pub struct Agent {
    config: PathBuf,
    every: Duration,
}

/// Why the agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The system cannot report changes of files.
    #[error("follow {}", path.display())]
    Follow {
        path: PathBuf,
        /// The message of the system.
        source: io::Error,
    },
}

impl Agent {
    /// An agent that follows this file. It need not be there yet.
    pub fn new(config: impl Into<PathBuf>) -> Self {
        Self {
            config: config.into(),
            every: RESYNC_INTERVAL,
        }
    }

    /// Looks after everything this often, in place of every 30 seconds.
    #[must_use]
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Runs until it is dropped, in the network namespace of this thread.
    /// What it has made in the kernel stays.
    pub async fn run(self) -> Result<Infallible, AgentError> {
        allow_files();
        let (sender, configs) = watch::channel(None);
        let followed = tokio::select! {
            followed = follow::run(&self.config, sender, self.every) => followed,
            never = async {
                tokio::join!(
                    api_listener::run(configs.clone()),
                    pods::run(configs.clone(), self.every),
                );
                std::future::pending().await
            } => never,
        };
        followed.map_err(|source| AgentError::Follow {
            path: self.config,
            source,
        })
    }
}

/// Each connection takes two files; the usual limit is for programs that cannot
/// use more than 1024.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, most) {
        tracing::debug!(%error, "limit of open files not raised");
    }
}
