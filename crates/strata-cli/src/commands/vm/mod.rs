//! `strata vm`: virtual machines on a node.

mod console;
mod create;
mod destroy;
mod events;
mod list;
mod logs;
mod run;
mod show;
mod spec_args;
mod start;
mod stats;
mod stop;
mod wait;

use clap::Subcommand;
use strata_api::strata::v1::GetVmRequest;
use strata_client::NodeClient;

use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::view::VmView;

#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// Create virtual machines without starting them
    Create(Box<create::Create>),
    /// Create and start a virtual machine
    Run(Box<run::Run>),
    /// List the virtual machines of the node
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a virtual machine
    Show(show::Show),
    /// Start virtual machines
    Start(start::Start),
    /// Stop virtual machines; their disks are kept
    Stop(stop::Stop),
    /// Stop and delete virtual machines
    #[command(visible_alias = "rm")]
    Destroy(destroy::Destroy),
    /// Wait until a virtual machine stops and is not restarted
    Wait(wait::Wait),
    /// Show events of virtual machines
    Events(events::Events),
    /// Show resource usage of virtual machines
    Stats(stats::Stats),
    /// Show the serial console output of a virtual machine
    Logs(logs::Logs),
    /// Attach to the serial console of a virtual machine
    Console(console::Console),
}

impl VmCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::Run(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Start(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
            Self::Destroy(command) => command.run(session).await,
            Self::Wait(command) => command.run(session).await,
            Self::Events(command) => command.run(session).await,
            Self::Stats(command) => command.run(session).await,
            Self::Logs(command) => command.run(session).await,
            Self::Console(command) => command.run(session).await,
        }
    }
}

/// The virtual machine as it is now.
async fn current(node: &NodeClient, name: &str, what: &str) -> Result<VmView> {
    let request = GetVmRequest {
        name: name.to_owned(),
    };
    let answer = node.vms().get(request).await;
    let vm = answer.map_err(cannot(node, format!("{what} the vm {name}")))?;
    Ok(vm.into_inner().into())
}
