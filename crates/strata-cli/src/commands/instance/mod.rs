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
mod stats;
mod stop;
mod turn;
mod update;

use clap::{Args, Subcommand};
use strata_api::rest::Instance;
use strata_client::rest::{RestClient, Tagged};

use super::scope::Scope;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::object_name;

/// The verbs of an instance.
#[derive(Debug, Subcommand)]
pub enum InstanceCommand {
    /// Make an instance, and see it through until it runs
    Create(Box<create::Create>),
    /// The instances of a project
    #[command(visible_alias = "ls")]
    List(list::List),
    /// One instance, all that is known of it
    Show(show::Show),
    /// Start instances that rest, failed or have ended
    Start(start::Start),
    /// End what runs in instances; what they wrote stays
    Stop(stop::Stop),
    /// Change what an instance is; what runs of it is replaced
    Update(Box<update::Update>),
    /// Take instances away, with all they wrote
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
    /// What an instance wrote
    Logs(logs::Logs),
    /// Run a further command in an instance
    Exec(exec::Exec),
    /// Why it is where it is, and why not elsewhere
    Explain(explain::Explain),
    /// What instances use
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

/// Which instance.
#[derive(Args, Debug)]
struct One {
    /// The instance: NAME, PROJECT/NAME or its id
    #[arg(value_parser = object_name, add = complete::instances())]
    name: String,

    #[command(flatten)]
    scope: Scope,
}

impl One {
    /// As it is now.
    async fn get(&self, rest: &RestClient, verb: &str) -> Result<Tagged<Instance>> {
        current(rest, &self.name, &self.scope, verb).await
    }
}

/// Which instances.
#[derive(Args, Debug)]
struct Several {
    /// The instances: NAME, PROJECT/NAME or id
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
