//! `strata workload delete`: takes workloads away; their instances too, where
//! that was said.

use clap::Args;
use strata_api::rest::Workload;

use crate::commands::each::{Deed, preview};
use crate::commands::scope::Scope;
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;
use crate::values::object_name;

/// Take a workload away
#[derive(Args, Debug)]
#[command(after_help = "\
A workload that has instances stays, unless they go with it.

Examples:
  strata workload delete web
  strata workload delete web --cascade --yes")]
pub struct Delete {
    /// The workloads: NAME, PROJECT/NAME or id
    #[arg(value_name = "NAME", required = true, value_parser = object_name)]
    #[arg(add = complete::workloads())]
    names: Vec<String>,

    #[command(flatten)]
    scope: Scope,

    /// Their instances go too
    #[arg(long)]
    cascade: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
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
                let now = now.map_err(unable(format!("look at the workload {name}")))?;
                let many = human::count(now.object.instances, "instance");
                Ok(match (now.object.instances, self.cascade) {
                    (0, _) => format!("would delete {name}"),
                    (_, true) => format!("would delete {name} and its {many}"),
                    (_, false) => format!("{name} would stay: it has {many}"),
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
        DEED.of_each(session, self.names, async |_, name| {
            let answer = rest.delete::<Workload>(&name, &query).await;
            answer.map_err(unable(format!("delete the workload {name}")))
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "delete",
    done: "deleted",
    noun: "workload",
};
