//! `strata project`: whose instances are whose, and how much each may have.

mod create;
mod delete;
mod list;
mod quota;
mod show;
mod update;

use clap::{Args, Subcommand};
use strata_api::rest::Project;
use strata_client::rest::{Query, RestClient};

use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::label_name;

#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    /// Create a project
    Create(create::Create),
    /// List projects
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show a project: quota and usage
    Show(show::Show),
    /// Update a project
    Update(update::Update),
    /// Delete empty projects
    #[command(visible_alias = "rm")]
    Delete(delete::Delete),
}

impl ProjectCommand {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self {
            Self::Create(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Update(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
        }
    }
}

#[derive(Args, Debug)]
struct ProjectArg {
    /// Name of the project
    #[arg(value_parser = label_name, add = complete::projects())]
    name: String,
}

async fn current(rest: &RestClient, name: &str, verb: &str) -> Result<Project> {
    let found = rest.get(name, &Query::new()).await;
    let found = found.map_err(unable(format!("{verb} the project {name}")))?;
    Ok(found.object)
}
