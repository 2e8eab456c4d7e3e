//! `strata backup schedule`: when backups are made by themselves.

mod add;
mod list;
mod remove;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

/// The verbs of a schedule.
#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Make backups from now on by a schedule
    Add(add::Add),
    /// The schedules, and when each is due
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Make no more backups by schedules; those made stay
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
