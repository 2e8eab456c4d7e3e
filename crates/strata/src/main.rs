//! The `strata` binary: one program, several roles. `up` is everything on
//! one machine; `server` and `node` are its halves; all other commands are
//! plain clients of the public API.

mod args;
mod cluster_agent;
mod config;
mod cores;
mod daemon;
mod down;
mod identity;
mod join;
mod lock;
mod machine;
mod new_store;
mod node_runtime;
mod provisioning;
mod restore;
mod restore_audit;
mod restore_credentials;
mod serve;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use strata_cli::Global;

use args::{Arguments, NodeArguments, Role};

fn main() -> ExitCode {
    cores::forbid();
    if machine::is_pid_1() {
        return machine::run();
    }
    if let Some(words) = machine::flock::asked_for() {
        return machine::flock::run(&words);
    }
    if let Some(arguments) = cluster_agent::asked_for() {
        return cluster_agent::run(&arguments);
    }
    strata_cli::complete(Arguments::command);
    let Arguments { global, role } = Arguments::parse();
    strata_identity::install_crypto_provider();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = strata_cli::Failure::new(
                strata_cli::Exit::Unexpected,
                format!("cannot start the runtime: {error}"),
            );
            return strata_cli::report(Err(failure), &global);
        }
    };
    runtime.block_on(async {
        match role {
            Role::Up(arguments) => {
                strata_cli::report(daemon::up(&global, arguments).await, &global)
            }
            Role::Server(arguments) => {
                strata_cli::report(daemon::server(&global, arguments).await, &global)
            }
            Role::Node(arguments) => node(&global, arguments).await,
            Role::Down(arguments) => {
                strata_cli::report(down::run(&global, &arguments).await, &global)
            }
            Role::Restore(arguments) => {
                strata_cli::report(restore::run(&global, arguments).await, &global)
            }
            Role::Client(command) => strata_cli::run(command, &global).await,
        }
    })
}

/// The node daemon, or a client command on the nodes of a server.
async fn node(global: &Global, mut arguments: NodeArguments) -> ExitCode {
    let Some(verb) = arguments.verb.take() else {
        return strata_cli::report(daemon::node(global, arguments).await, global);
    };
    if let Some(flag) = arguments.misplaced() {
        let what = format!("{flag} is a flag of the daemon, which runs without a verb");
        let failure = strata_cli::Failure::new(strata_cli::Exit::Usage, what);
        return strata_cli::report(Err(failure), global);
    }
    strata_cli::run(strata_cli::Command::Node(verb), global).await
}
