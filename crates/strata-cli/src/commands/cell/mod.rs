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

#[derive(Debug, Subcommand)]
pub enum CellCommand {
    /// Allocate cells: isolated cgroups and namespaces
    Allocate(allocate::Allocate),
    /// Stop everything in cells and free them
    Free(free::Free),
    /// List the cells of the node
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a cell and its executables
    Show(show::Show),
    /// Start an executable in a cell
    Start(start::Start),
    /// Stop executables in a cell
    Stop(stop::Stop),
    /// Wait for an executable to exit
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
