//! `strata instance`: containers and virtual machines, on whichever node the
//! server finds for them.

mod create;
mod delete;
mod exec;
mod explain;
pub(crate) mod follow;
mod list;
mod logs;
mod show;
mod start;
mod state_change;
mod stats;
mod stop;
mod update;

use clap::{Args, Subcommand};
use strata_api::rest::Instance;
use strata_client::rest::{RestClient, Tagged};

use super::scope::Scope;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::object_name;

#[derive(Debug, Subcommand)]
pub enum InstanceCommand {
    /// Create an instance and wait until it runs
    Create(Box<create::Create>),
    /// List instances
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show an instance
    Show(show::Show),
    /// Start instances
    Start(start::Start),
    /// Stop instances; their data is kept
    Stop(stop::Stop),
    /// Update an instance; a running one is replaced
    Update(Box<update::Update>),
    /// Delete instances and their data
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
    /// Show the logs of an instance
    Logs(logs::Logs),
    /// Run a command in an instance
    Exec(exec::Exec),
    /// Explain the placement of an instance, node by node
    Explain(explain::Explain),
    /// Show resource usage of instances
    Stats(stats::Stats),
}

impl InstanceCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Start(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
            Self::Update(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
            Self::Logs(command) => command.run(session).await,
            Self::Exec(command) => command.run(session).await,
            Self::Explain(command) => command.run(session).await,
            Self::Stats(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Debug)]
struct InstanceArg {
    /// Instance: NAME, PROJECT/NAME or ID
    #[arg(value_parser = object_name, add = complete::instances())]
    name: String,

    #[command(flatten)]
    scope: Scope,
}

impl InstanceArg {
    /// As it is now.
    async fn get(&self, rest: &RestClient, verb: &str) -> Result<Tagged<Instance>> {
        current(rest, &self.name, &self.scope, verb).await
    }
}

#[derive(Args, Debug)]
struct InstancesArg {
    /// Instances: NAME, PROJECT/NAME or ID
    #[arg(value_name = "NAME", required = true, value_parser = object_name)]
    #[arg(add = complete::instances())]
    names: Vec<String>,

    #[command(flatten)]
    scope: Scope,
}

/// The instance as it is now.
async fn current(
    rest: &RestClient,
    name: &str,
    scope: &Scope,
    verb: &str,
) -> Result<Tagged<Instance>> {
    let found = rest.get(name, &scope.query()).await;
    found.map_err(unable(format!("{verb} the instance {name}")))
}
