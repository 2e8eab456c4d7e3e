//! `strata storage`: the pool on the server's machine, made larger and smaller
//! while it is in use, and what is on it.

mod device;
mod expand;
mod plan;
mod scrub;
mod show;
mod shrink;
mod volume;

use clap::Subcommand;
use strata_api::rest::Pool;
use strata_client::rest::{Query, RestClient};

use crate::failure::{Result, unable};
use crate::session::Session;

/// The verbs of the pool.
#[derive(Debug, Subcommand)]
pub enum StorageCommand {
    /// The pool: how it is, what is on it, and its devices
    Show(show::Show),
    /// Make the pool larger with its spares
    Expand(expand::Expand),
    /// Make the pool smaller; what leaves it becomes a spare
    Shrink(shrink::Shrink),
    /// Read everything, and mend what does not match its checksum
    Scrub(scrub::Scrub),
    /// Devices of the pool, and spares
    #[command(subcommand)]
    Device(device::DeviceCommand),
    /// Volumes on the pool
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
}

impl StorageCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Show(command) => command.run(session).await,
            Self::Expand(command) => command.run(session).await,
            Self::Shrink(command) => command.run(session).await,
            Self::Scrub(command) => command.run(session).await,
            Self::Device(command) => command.run(session).await,
            Self::Volume(command) => command.run(session).await,
        }
    }
}

/// The pool as it is now; there is one.
async fn current(rest: &RestClient) -> Result<Pool> {
    let found = rest.get("", &Query::new()).await;
    Ok(found.map_err(unable("look at the pool"))?.object)
}
