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

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Names of the clusters
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Create a Kubernetes cluster on machines of the inventory
    Create(Box<create::Create>),
    /// Show a cluster
    Show(show::Show),
    /// Delete clusters with everything in them
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
    /// Upgrade a cluster without downtime
    Upgrade(upgrade::Upgrade),
    /// List the machines and nodes of a cluster
    Nodes(nodes::Nodes),
    /// Create or revoke credentials for kubectl
    Kubeconfig(Box<kubeconfig::Kubeconfig>),
    /// Restore a cluster from a snapshot
    Restore(restore::Restore),
    /// Manage snapshots of a cluster
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// List the Kubernetes versions that can be installed
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

#[derive(Args, Clone, Debug)]
struct ClusterArg {
    /// Name of the cluster
    #[arg(add = complete::clusters())]
    name: String,
}

/// The cluster as it is now.
pub(super) async fn current(rest: &RestClient, name: &str, verb: &str) -> Result<Cluster> {
    let found = rest.get(name, &Query::new()).await;
    let found = found.map_err(unable(format!("{verb} the cluster {name}")))?;
    Ok(found.object)
}
