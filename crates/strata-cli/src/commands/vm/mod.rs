//! `strata vm`: virtual machines on a node.

mod console;
mod create;
mod destroy;
mod events;
mod list;
mod logs;
mod run;
mod show;
mod start;
mod stats;
mod stop;
mod wait;
mod wanted;

use clap::Subcommand;
use strata_api::strata::v1::GetVmRequest;
use strata_client::NodeClient;

use crate::failure::{Result, cannot};
use crate::session::Session;
use crate::view::VmView;

/// The verbs of a virtual machine.
#[derive(Debug, Subcommand)]
pub enum VmCommand {
    /// Make a virtual machine, without switching it on
    Create(Box<create::Create>),
    /// Make a virtual machine and switch it on
    Run(Box<run::Run>),
    /// The virtual machines of the node
    #[command(visible_alias = "ls")]
    List(list::List),
    /// One virtual machine, all that is known of it
    Show(show::Show),
    /// Switch virtual machines on
    Start(start::Start),
    /// Switch virtual machines off; their disks stay
    Stop(stop::Stop),
    /// Stop virtual machines and take everything of them away
    #[command(visible_alias = "rm")]
    Destroy(destroy::Destroy),
    /// Wait until a virtual machine has ended for good
    Wait(wait::Wait),
    /// What happened to virtual machines
    Events(events::Events),
    /// What virtual machines use, live
    Stats(stats::Stats),
    /// What a virtual machine wrote to its serial console
    Logs(logs::Logs),
    /// The serial console of a virtual machine
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
