//! `strata machine`: the inventory, and what can be done with a machine by
//! hand. What makes a hypervisor of one is `strata hypervisor`.

mod add;
mod console;
mod inventory;
mod list;
mod power;
mod remove;
mod show;

use clap::{Args, Subcommand};
use strata_api::rest::Machine;
use strata_client::rest::{Query, RestClient};

use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    /// Register machines
    Add(Box<add::Add>),
    /// List machines
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a machine
    Show(show::Show),
    /// Deregister machines that are down
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
    /// Power a machine on or off, or power-cycle it
    Power(power::Power),
    /// Show the console output of a machine
    Console(console::Console),
}

impl MachineCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Add(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Remove(command) => command.run(session).await,
            Self::Power(command) => command.run(session).await,
            Self::Console(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Clone, Debug)]
struct MachineArg {
    /// Machine ID
    #[arg(value_name = "ID", add = complete::inventory())]
    id: String,
}

/// The machine as it is now.
pub(super) async fn current(rest: &RestClient, id: &str, verb: &str) -> Result<Machine> {
    let found = rest.get(id, &Query::new()).await;
    let found = found.map_err(unable(format!("{verb} the machine {id}")))?;
    Ok(found.object)
}

/// All of them, by their ids.
async fn all(rest: &RestClient) -> Result<Vec<Machine>> {
    let found = rest.list::<Machine>(&Query::new()).await;
    let mut found = found.map_err(unable("list the machines"))?;
    found.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(found)
}
