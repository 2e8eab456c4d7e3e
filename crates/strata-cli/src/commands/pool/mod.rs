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

/// The verbs of a pool.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// The pools of a cluster
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Add a pool to a cluster
    Add(add::Add),
    /// Give a pool more machines, or fewer
    Scale(scale::Scale),
    /// Take pools away; their machines are given back
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

/// Whose pools.
#[derive(Args, Clone, Debug)]
struct Of {
    /// The cluster
    #[arg(add = complete::clusters())]
    cluster: String,
}
