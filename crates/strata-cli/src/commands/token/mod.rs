//! `strata token`: tokens for the API and for nodes that join.

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token; it is shown only once
    Create(create::Create),
    /// List valid tokens
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Revoke a token
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
