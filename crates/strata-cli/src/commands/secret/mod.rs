//! `strata secret`: values that instances are given and nobody is shown.

mod create;
mod delete;
mod list;
mod show;
mod update;
mod value;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Create a secret from a file or stdin
    Create(create::Create),
    /// List secrets, without their values
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a secret, without its value
    Show(show::Show),
    /// Replace the value of a secret
    Update(update::Update),
    /// Delete a secret that is not used
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
}

impl SecretCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Update(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
        }
    }
}
