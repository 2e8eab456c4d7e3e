//! `strata operation VERB`: long actions of the server, such as the emptying
//! of a node. The server goes on with them whether somebody looks or not.

mod cancel;
pub(crate) mod follow;
mod list;
mod log;
mod progress;
mod show;
mod wait;

use clap::{Args, Subcommand};
use strata_api::rest::Operation;
use strata_client::rest::{Query, RestClient};

use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// List operations, oldest first
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show an operation and its steps
    Show(show::Show),
    /// Wait for an operation to complete
    Wait(wait::Wait),
    /// Cancel operations and roll them back
    Cancel(cancel::Cancel),
    /// Show the log of an operation
    Log(log::Log),
}

impl OperationCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Wait(command) => command.run(session).await,
            Self::Cancel(command) => command.run(session).await,
            Self::Log(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Clone, Debug)]
struct OperationArg {
    /// Operation ID
    #[arg(add = complete::operations())]
    id: String,
}

async fn current(rest: &RestClient, id: &str, verb: &str) -> Result<Operation> {
    let found = rest.get(id, &Query::new()).await;
    let found = found.map_err(unable(format!("{verb} the operation {id}")))?;
    Ok(found.object)
}

/// Title: `node-drain of node/rack1-7`.
pub(crate) fn title(operation: &Operation) -> String {
    match operation.about.as_slice() {
        [] => operation.kind.clone(),
        about => format!("{} of {}", operation.kind, about.join(", ")),
    }
}
