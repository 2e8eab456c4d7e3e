//! `strata cluster`: Kubernetes clusters made of machines of the inventory.
//! What takes long is an operation of the server, which is followed here. The
//! workers of a cluster, pool by pool, are `strata pool`.

mod create;
mod delete;
mod kubeconfig;
mod list;
mod merge;
mod nodes;
pub(super) mod plan;
mod restore;
mod show;
mod snapshot;
mod upgrade;
mod versions;

use clap::{Args, Subcommand};
use strata_api::rest::Cluster;
use strata_client::rest::{Query, RestClient};

use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

/// The verbs of a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// The clusters
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Make a cluster of machines of the inventory
    Create(Box<create::Create>),
    /// One cluster, all that is known of it
    Show(show::Show),
    /// Delete clusters with all that runs in them
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
    /// Bring a cluster to another version, while it is in use
    Upgrade(upgrade::Upgrade),
    /// The machines of a cluster and their nodes
    Nodes(nodes::Nodes),
    /// Credentials for kubectl
    Kubeconfig(Box<kubeconfig::Kubeconfig>),
    /// Put a cluster back to a snapshot of its state
    Restore(restore::Restore),
    /// Snapshots of the state of a cluster
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// The versions of Kubernetes that can be installed
    Versions(versions::Versions),
}

impl ClusterCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Create(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
            Self::Upgrade(command) => command.run(session).await,
            Self::Nodes(command) => command.run(session).await,
            Self::Kubeconfig(command) => command.run(session).await,
            Self::Restore(command) => command.run(session).await,
            Self::Snapshot(command) => command.run(session).await,
            Self::Versions(command) => command.run(session).await,
        }
    }
}

/// Which cluster.
#[derive(Args, Clone, Debug)]
struct One {
    /// The cluster
    #[arg(add = complete::clusters())]
    name: String,
}

/// The cluster as it is now.
pub(super) async fn current(rest: &RestClient, name: &str, verb: &str) -> Result<Cluster> {
    let found = rest.get(name, &Query::new()).await;
    let found = found.map_err(unable(format!("{verb} the cluster {name}")))?;
    Ok(found.object)
}
