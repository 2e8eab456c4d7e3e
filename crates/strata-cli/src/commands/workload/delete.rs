//! `strata workload delete`: takes workloads away; their instances too, where
//! that was said.

use clap::Args;
use strata_api::rest::Workload;

use crate::commands::bulk::{BulkAction, preview};
use crate::commands::scope::Scope;
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;
use crate::values::object_name;

/// Delete workloads
#[derive(Args, Debug)]
#[command(after_help = "\
A workload with instances is rejected without --cascade.

Examples:
  strata workload delete web
  strata workload delete web --cascade --yes")]
pub struct Delete {
    /// Workloads: NAME, PROJECT/NAME or ID
    #[arg(value_name = "NAME", required = true, value_parser = object_name)]
    #[arg(add = complete::workloads())]
    names: Vec<String>,

    #[command(flatten)]
    scope: Scope,

    /// Delete their instances too
    #[arg(long)]
    cascade: bool,

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
        let query = self.scope.query();
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let now = rest.get::<Workload>(name, &query).await;
                let now = now.map_err(unable(format!("read the workload {name}")))?;
                let many = human::count(now.object.instances, "instance");
                Ok(match (now.object.instances, self.cascade) {
                    (0, _) => format!("would delete {name}"),
                    (_, true) => format!("would delete {name} and its {many}"),
                    (_, false) => format!("{name} would not be deleted: it has {many}"),
                })
            })
            .await;
        }
        let with = if self.cascade {
            " with all instances"
        } else {
            ""
        };
        let question = format!("Delete {}{with}?", self.names.join(", "));
        session.confirm(&question, self.yes)?;
        let query = query.maybe("cascade", self.cascade.then_some("true"));
        ACTION
            .each_with(session, self.names, async |_, name| {
                let answer = rest.delete::<Workload>(&name, &query).await;
                answer.map_err(unable(format!("delete the workload {name}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "delete",
    done: "deleted",
    noun: "workload",
};
