//! `strata project delete`: takes empty projects away.

use clap::Args;
use strata_api::rest::Project;
use strata_client::rest::Query;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;
use crate::values::label_name;

/// Delete empty projects
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata project delete shop
  strata project delete shop blog --yes")]
pub struct Delete {
    /// Names of the projects
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::projects())]
    names: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Delete {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let project = current(&rest, name, "read").await?;
                Ok(match project.used.instances {
                    0 => format!("would delete {name}"),
                    n => {
                        let many = human::count(usize::try_from(n).unwrap_or(0), "instance");
                        format!("{name} would not be deleted: it has {many}")
                    }
                })
            })
            .await;
        }
        let question = format!("Delete {}?", self.names.join(", "));
        session.confirm(&question, self.yes)?;
        ACTION
            .each_with(session, self.names, async |_, name| {
                let answer = rest.delete::<Project>(&name, &Query::new()).await;
                answer.map_err(unable(format!("delete the project {name}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "delete",
    done: "deleted",
    noun: "project",
};
