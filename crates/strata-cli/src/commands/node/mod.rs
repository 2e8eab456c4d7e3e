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

/// What can be done with the nodes that a server knows.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeCommand {
    /// The nodes of the server
    #[command(visible_alias = "ls")]
    List(list::List),
    /// One node, all that is known of it
    Show(show::Show),
    /// Move the instances of a node elsewhere, and let it take no more
    Drain(drain::Drain),
    /// Let a node take instances again
    Undrain(undrain::Undrain),
    /// Say something about a node, for placement
    Label(label::Label),
    /// Bound what a node may say it has
    Limit(limit::Limit),
    /// Take over the instances that another control plane assigned to a node
    Adopt(adopt::Adopt),
    /// Destroy the instances of a node that the server has no record of
    Forget(forget::Forget),
    /// Drain a node and forget it
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

/// Which node.
#[derive(Args, Clone, Debug)]
struct One {
    /// The node
    #[arg(add = complete::nodes())]
    name: String,
}

/// Which nodes.
#[derive(Args, Clone, Debug)]
struct Several {
    /// The nodes
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
