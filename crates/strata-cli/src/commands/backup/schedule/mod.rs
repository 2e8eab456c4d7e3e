//! `strata backup schedule`: when backups are made by themselves.

mod add;
mod list;
mod remove;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Create or replace a backup schedule
    Add(add::Add),
    /// List backup schedules
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Delete backup schedules; their backups are kept
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
}

impl ScheduleCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Add(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Remove(command) => command.run(session).await,
        }
    }
}
