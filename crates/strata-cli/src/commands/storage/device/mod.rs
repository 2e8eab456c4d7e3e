//! `strata storage device`: what the pool is on, and what waits to be.

mod add;
mod list;
mod remove;
mod replace;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// List devices and spares of the pool
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Add a spare: a block device or a file
    Add(add::Add),
    /// Remove spares
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
    /// Replace a device with a spare
    Replace(replace::Replace),
}

impl DeviceCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Add(command) => command.run(session).await,
            Self::Remove(command) => command.run(session).await,
            Self::Replace(command) => command.run(session).await,
        }
    }
}
