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

/// The verbs of a hypervisor.
#[derive(Debug, Subcommand)]
pub enum HypervisorCommand {
    /// Every machine, whether it hosts instances or could
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Bring machines up to host instances
    Create(create::Create),
    /// Take hypervisors down at once; what is on them is not moved
    Destroy(destroy::Destroy),
    /// Move the instances of a hypervisor elsewhere
    Drain(drain::Drain),
    /// Bring machines up and down by what is needed
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

/// Which machines.
#[derive(Args, Clone, Debug)]
struct Several {
    /// The machines
    #[arg(value_name = "ID", required = true, add = complete::inventory())]
    ids: Vec<String>,
}
