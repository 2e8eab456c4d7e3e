//! `strata cluster snapshot`: what is kept of the state of a cluster.

mod create;
mod list;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

/// The verbs of a snapshot.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Keep the state of a cluster as it is now
    Create(create::Create),
    /// What is kept of a cluster, the latest last
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
