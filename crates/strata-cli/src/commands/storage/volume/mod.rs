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

/// The verbs of a volume.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// The volumes on the pool
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Make a volume, empty or as a copy of another
    Create(create::Create),
    /// One volume, all that is known of it
    Show(show::Show),
    /// Change how much a volume may hold
    Resize(resize::Resize),
    /// Remove volumes with all that is in them
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
    /// Remember a volume as it is now
    Snapshot(snapshot::Snapshot),
    /// Forget a snapshot of a volume
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

/// Which volume.
#[derive(Args, Clone, Debug)]
struct One {
    /// The volume
    #[arg(add = complete::pool_volumes())]
    name: String,
}

async fn current(rest: &RestClient, name: &str, verb: &str) -> Result<PoolVolume> {
    let found = rest.get(name, &Query::new()).await;
    let found = found.map_err(unable(format!("{verb} the volume {name}")))?;
    Ok(found.object)
}
