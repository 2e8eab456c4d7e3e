//! `strata hypervisor`: machines of the inventory brought up to host
//! instances, emptied, and taken down again. Each is an operation of the
//! server, which is followed here.

mod autoscale;
mod create;
mod destroy;
mod drain;
mod list;

use clap::{Args, Subcommand};

use crate::complete;
use crate::failure::Result;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum HypervisorCommand {
    /// List machines as hypervisors
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Boot machines as hypervisors
    Create(create::Create),
    /// Stop and wipe hypervisors without evicting instances
    Destroy(destroy::Destroy),
    /// Evict the instances of a hypervisor to other nodes
    Drain(drain::Drain),
    /// Manage the autoscaler
    #[command(subcommand)]
    Autoscale(autoscale::AutoscaleCommand),
}

impl HypervisorCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::List(command) => command.run(session).await,
            Self::Create(command) => command.run(session).await,
            Self::Destroy(command) => command.run(session).await,
            Self::Drain(command) => command.run(session).await,
            Self::Autoscale(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Clone, Debug)]
struct HypervisorsArg {
    /// IDs of the machines
    #[arg(value_name = "ID", required = true, add = complete::inventory())]
    ids: Vec<String>,
}
