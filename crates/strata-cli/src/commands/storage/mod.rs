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

#[derive(Debug, Subcommand)]
pub enum StorageCommand {
    /// Show the pool: health, usage and devices
    Show(show::Show),
    /// Expand the pool with spares
    Expand(expand::Expand),
    /// Shrink the pool; removed devices become spares
    Shrink(shrink::Shrink),
    /// Scrub the pool: read all data and repair checksum errors
    Scrub(scrub::Scrub),
    /// List devices and spares of the pool
    #[command(subcommand)]
    Device(device::DeviceCommand),
    /// Volumes of the storage pool
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
    Ok(found.map_err(unable("read the pool"))?.object)
}
