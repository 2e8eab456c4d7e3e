//! `strata node VERB`: the nodes that the server knows. Without a verb,
//! `strata node` is the node daemon itself, which is the binary's own.

mod adopt;
mod drain;
mod forget;
mod label;
mod limit;
mod list;
mod remove;
mod show;
mod undrain;

use clap::{Args, Subcommand};
use strata_api::rest::{Node, NodePatch};
use strata_client::rest::{Query, RestClient};

use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Verbs on the nodes of a server.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeCommand {
    /// List nodes
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a node
    Show(show::Show),
    /// Evict the instances of a node and make it unschedulable
    Drain(drain::Drain),
    /// Make a node schedulable again
    Undrain(undrain::Undrain),
    /// Set node labels
    Label(label::Label),
    /// Limit the capacity a node may report
    Limit(limit::Limit),
    /// Adopt the instances that another control plane assigned to a node
    Adopt(adopt::Adopt),
    /// Destroy the instances of a node that have no record in the server
    Forget(forget::Forget),
    /// Drain and delete a node
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
}

impl NodeCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Drain(command) => command.run(session).await,
            Self::Undrain(command) => command.run(session).await,
            Self::Label(command) => command.run(session).await,
            Self::Limit(command) => command.run(session).await,
            Self::Adopt(command) => command.run(session).await,
            Self::Forget(command) => command.run(session).await,
            Self::Remove(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Clone, Debug)]
struct NodeArg {
    /// Name of the node
    #[arg(add = complete::nodes())]
    name: String,
}

#[derive(Args, Clone, Debug)]
struct NodesArg {
    /// Names of the nodes
    #[arg(value_name = "NAME", required = true, add = complete::nodes())]
    names: Vec<String>,
}

async fn current(rest: &RestClient, name: &str, verb: &str) -> Result<Node> {
    let found = rest.get(name, &Query::new()).await;
    let found = found.map_err(unable(format!("{verb} the node {name}")))?;
    Ok(found.object)
}

async fn change(rest: &RestClient, name: &str, patch: &NodePatch, verb: &str) -> Result<Node> {
    let changed = rest.update(name, &Query::new(), patch, None).await;
    changed.map_err(unable(format!("{verb} the node {name}")))
}
