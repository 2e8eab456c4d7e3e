//! `strata storage volume`: volumes on the pool. Those that a node keeps on
//! its own disk are `strata volume`.

mod create;
mod list;
mod remove;
mod resize;
mod show;
mod snapshot;
mod unsnapshot;

use clap::{Args, Subcommand};
use strata_api::rest::PoolVolume;
use strata_client::rest::{Query, RestClient};

use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// List the volumes of the pool
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Create a volume, empty or as a copy
    Create(create::Create),
    /// Show a volume
    Show(show::Show),
    /// Resize a volume
    Resize(resize::Resize),
    /// Delete volumes with their contents
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
    /// Create a snapshot of a volume
    Snapshot(snapshot::Snapshot),
    /// Delete a snapshot of a volume
    Unsnapshot(unsnapshot::Unsnapshot),
}

impl VolumeCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Create(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Resize(command) => command.run(session).await,
            Self::Remove(command) => command.run(session).await,
            Self::Snapshot(command) => command.run(session).await,
            Self::Unsnapshot(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Clone, Debug)]
struct PoolVolumeArg {
    /// Name of the volume
    #[arg(add = complete::pool_volumes())]
    name: String,
}

async fn current(rest: &RestClient, name: &str, verb: &str) -> Result<PoolVolume> {
    let found = rest.get(name, &Query::new()).await;
    let found = found.map_err(unable(format!("{verb} the volume {name}")))?;
    Ok(found.object)
}
