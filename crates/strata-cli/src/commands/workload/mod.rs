//! `strata workload`: templates of instances.

mod create;
mod delete;
mod list;
mod run;
mod show;
mod update;

use clap::{Args, Subcommand};
use strata_api::rest::Workload;
use strata_client::rest::{RestClient, Tagged};

use super::scope::Scope;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::object_name;

#[derive(Debug, Subcommand)]
pub enum WorkloadCommand {
    /// Create a workload, without instances
    Create(Box<create::Create>),
    /// List workloads
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a workload
    Show(show::Show),
    /// Update a workload; its instances are not changed
    Update(Box<update::Update>),
    /// Delete workloads
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
    /// Create instances of a workload
    Run(run::Run),
}

impl WorkloadCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Update(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
            Self::Run(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Debug)]
struct WorkloadArg {
    /// Workload: NAME, PROJECT/NAME or ID
    #[arg(value_parser = object_name, add = complete::workloads())]
    name: String,

    #[command(flatten)]
    scope: Scope,
}

impl WorkloadArg {
    /// As it is now.
    async fn get(&self, rest: &RestClient, verb: &str) -> Result<Tagged<Workload>> {
        let found = rest.get(&self.name, &self.scope.query()).await;
        found.map_err(unable(format!("{verb} the workload {}", self.name)))
    }
}
