//! The runtime that serves nodes and nothing else: connections are accepted
//! there, and those with a node's certificate stay there, so that heartbeats
//! are answered in time whatever the load of the API (decision 27). The node's
//! own connection to its server runs there as well.

use strata_cli::{Exit, Failure};
use tokio::runtime::{Builder, Handle, Runtime};

/// Two, so that a node that sends much does not hold up the others.
const THREADS: usize = 2;

/// Ends with the daemon.
pub(crate) struct NodeRuntime(Option<Runtime>);

impl NodeRuntime {
    pub(crate) fn start() -> Result<Self, Failure> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("strata-nodes")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| {
            Failure::new(
                Exit::Unexpected,
                format!("cannot start the runtime that serves nodes: {error}"),
            )
        })?;
        Ok(Self(Some(runtime)))
    }

    /// Where to spawn. None only while it is dropped.
    pub(crate) fn handle(&self) -> Handle {
        match &self.0 {
            Some(runtime) => runtime.handle().clone(),
            None => Handle::current(),
        }
    }
}

impl Drop for NodeRuntime {
    fn drop(&mut self) {
        // Dropped within another runtime, where waiting is not allowed.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
