//! `strata cluster snapshot`: what is kept of the state of a cluster.

mod create;
mod list;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Create a snapshot of a cluster
    Create(create::Create),
    /// List the snapshots of a cluster, oldest first
    #[command(visible_alias = "ls")]
    List(list::List),
}

impl SnapshotCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
        }
    }
}
