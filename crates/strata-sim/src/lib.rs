//! The control plane in a simulation: servers, agents and callers as they are
//! in the product, on one thread, in virtual time, over a store, a network,
//! hosts, disks and clocks that are simulated. One seed decides on everything:
//! the same seed has the same trace (decision 52).
//!
//! ```text
//! callers ── REST ──▶ servers ── links ──▶ agents ──▶ hosts, which run units
//!   clients.rs        server.rs            agent.rs   host.rs
//!                        │ Store              │ StateFiles
//!                        ▼                    ▼
//!                     store.rs             files.rs          net.rs is between all
//! faults.rs what goes wrong, and when       checks.rs what must never be so
//! world.rs  a run: faults for a while, then rest, at which all is as requested
//! ```
//!
//! A process of the simulation is a scope of tasks (`process.rs`,
//! `strata_tasks::Scope`): it is paused and killed as a whole. Randomness and
//! clocks of the C library are those of the seed (`entropy.rs`).
//!
//! A seed is simulated in a process of its own ([`Campaign`]): a runtime and
//! identifiers have counters that are one process's.

mod agent;
mod campaign;
mod chance;
mod checks;
mod clients;
mod entropy;
mod env;
mod faults;
mod files;
mod host;
mod net;
mod process;
mod server;
mod store;
mod world;

use std::sync::Arc;

pub use campaign::{Campaign, Failure, shrink};
use env::Env;
use world::World;

/// What to simulate.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub seed: u64,
    /// The numbers of the faults that are left out.
    pub without: Vec<usize>,
    /// Whether the trace is printed as it comes.
    pub prints: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The hash of the trace.
    pub hash: u64,
    /// What must not be so and was.
    pub violations: Vec<String>,
    /// The faults that there were.
    pub faults: Vec<String>,
    /// The end of the trace.
    pub last_lines: Vec<String>,
    /// Virtual time.
    pub took: std::time::Duration,
}

/// Simulates one seed. The same again in one process has another trace: this
/// is for a process that does nothing else.
pub fn simulate(options: Options) -> std::io::Result<Outcome> {
    // The thread has no hash map yet, which would have its own randomness.
    let simulating = std::thread::Builder::new().stack_size(16 << 20);
    let simulated = simulating.spawn(move || {
        entropy::begin(options.seed);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let outcome = runtime.block_on(run(&options));
        // What is left waits for ever.
        runtime.shutdown_background();
        Ok(outcome)
    })?;
    let panicked = |_| std::io::Error::other("the simulation panicked");
    simulated.join().map_err(panicked)?
}

async fn run(options: &Options) -> Outcome {
    let env = Env::new(options.seed, options.prints);
    let world = Arc::new(World::new(&env));
    let faults = world.faults().iter().map(ToString::to_string).collect();
    env.outside()
        .within_async(world.run(&options.without))
        .await;
    Outcome {
        hash: env.hash(),
        violations: env.violations(),
        faults,
        last_lines: env.last_lines(),
        took: env.elapsed(),
    }
}
