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

/// The verbs of a workload.
#[derive(Debug, Subcommand)]
pub enum WorkloadCommand {
    /// Make a workload, without instances of it
    Create(Box<create::Create>),
    /// The workloads of a project
    #[command(visible_alias = "ls")]
    List(list::List),
    /// One workload, all that is known of it
    Show(show::Show),
    /// Change a workload; its instances stay as they are
    Update(Box<update::Update>),
    /// Take a workload away
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
    /// Make instances of a workload
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

/// Which workload.
#[derive(Args, Debug)]
struct One {
    /// The workload: NAME, PROJECT/NAME or its id
    #[arg(value_parser = object_name, add = complete::workloads())]
    name: String,

    #[command(flatten)]
    scope: Scope,
}

impl One {
    /// As it is now.
    async fn get(&self, rest: &RestClient, verb: &str) -> Result<Tagged<Workload>> {
        let found = rest.get(&self.name, &self.scope.query()).await;
        found.map_err(unable(format!("{verb} the workload {}", self.name)))
    }
}
