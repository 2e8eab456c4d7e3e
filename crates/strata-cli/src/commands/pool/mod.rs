//! `strata pool`: the workers of a cluster, pool by pool. The storage pool is
//! `strata storage`.

mod add;
mod delete;
mod list;
mod scale;

use clap::{Args, Subcommand};

use crate::complete;
use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// List the node pools of a cluster
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Add a node pool to a cluster
    Add(add::Add),
    /// Scale a node pool
    Scale(scale::Scale),
    /// Delete node pools and release their machines
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
}

impl PoolCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Add(command) => command.run(session).await,
            Self::Scale(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Clone, Debug)]
struct ClusterOfPool {
    /// Name of the cluster
    #[arg(add = complete::clusters())]
    cluster: String,
}
