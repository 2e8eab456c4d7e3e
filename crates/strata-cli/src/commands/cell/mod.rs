//! `strata cell`: isolated places on a node, and what runs in them.

mod allocate;
mod file;
mod free;
mod list;
mod show;
mod start;
mod stop;
mod wait;

use clap::Subcommand;

use crate::failure::Result;
use crate::session::Session;

/// The verbs of a cell.
#[derive(Debug, Subcommand)]
pub enum CellCommand {
    /// Reserve a cell: a cgroup and namespaces of its own
    Allocate(allocate::Allocate),
    /// Stop all that runs in cells, and give them back
    Free(free::Free),
    /// The cells of the node
    #[command(visible_alias = "ls")]
    List(list::List),
    /// One cell and what runs in it
    Show(show::Show),
    /// Run a command in a cell
    Start(start::Start),
    /// End what runs in a cell
    Stop(stop::Stop),
    /// Wait until an executable has ended
    Wait(wait::Wait),
}

impl CellCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Allocate(command) => command.run(session).await,
            Self::Free(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Start(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
            Self::Wait(command) => command.run(session).await,
        }
    }
}
