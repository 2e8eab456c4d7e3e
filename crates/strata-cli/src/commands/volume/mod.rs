//! `strata volume`: what a node keeps for its pods.

mod create;
mod list;
mod remove;
mod show;

use clap::Subcommand;
use strata_api::strata::v1::GetVolumeRequest;
use strata_client::NodeClient;

use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::view::VolumeView;

#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create an empty volume
    Create(create::Create),
    /// List the volumes of the node
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a volume
    Show(show::Show),
    /// Delete volumes with their contents
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
}

impl VolumeCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Remove(command) => command.run(session).await,
        }
    }
}

/// The volume as it is now.
async fn current(node: &NodeClient, name: &str, what: &str) -> Result<VolumeView> {
    let request = GetVolumeRequest {
        name: name.to_owned(),
    };
    let answer = node.volumes().get(request).await;
    let volume = answer.map_err(cannot(node, format!("{what} the volume {name}")))?;
    Ok(volume.into_inner().into())
}
