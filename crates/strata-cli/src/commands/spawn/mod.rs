//! `strata spawn`: nested nodes: nodes in containers of the host.

mod create;
mod destroy;
mod list;
mod show;

use clap::Subcommand;
use strata_api::strata::v1::GetMachineRequest;
use strata_client::NodeClient;

use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::view::MachineView;

#[derive(Debug, Subcommand)]
pub enum SpawnCommand {
    /// Create a nested node and wait until it responds
    Create(create::Create),
    /// List nested nodes
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a nested node
    Show(show::Show),
    /// Stop and delete nested nodes
    #[command(visible_alias = "rm")]
    Destroy(destroy::Destroy),
}

impl SpawnCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Destroy(command) => command.run(session).await,
        }
    }
}

/// The machine as it is now.
async fn current(node: &NodeClient, name: &str, what: &str) -> Result<MachineView> {
    let request = GetMachineRequest {
        name: name.to_owned(),
    };
    let answer = node.spawn().get(request).await;
    let machine = answer.map_err(cannot(node, format!("{what} the machine {name}")))?;
    Ok(machine.into_inner().into())
}
