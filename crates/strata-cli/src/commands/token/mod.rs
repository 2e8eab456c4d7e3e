//! `strata token`: tokens for the API and for nodes that join.

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

/// The verbs of a token.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token; it is shown this once
    Create(create::Create),
    /// The tokens that are good
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Make a token worthless
    Revoke(revoke::Revoke),
}

impl TokenCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Revoke(command) => command.run(session).await,
        }
    }
}
