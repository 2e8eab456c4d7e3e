//! `strata cluster delete`: gives the machines of clusters back, with all that
//! ran on them gone.

use clap::Args;

use super::current;
use crate::commands::bulk::preview;
use crate::commands::operation_wait::{ActionLabels, WaitArgs};
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Delete clusters with everything in them
#[derive(Args, Debug)]
#[command(after_help = "\
Other operations on the cluster are cancelled. Its snapshots are deleted.
Ctrl-C detaches; the operation continues on the server.

Examples:
  strata cluster delete dev
  strata cluster delete dev test --yes --detach")]
pub struct Delete {
    /// Names of the clusters
    #[arg(value_name = "NAME", required = true, add = complete::clusters())]
    names: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

const LABELS: ActionLabels = ActionLabels {
    doing: "deleting",
    done: "deleted",
};

impl Delete {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let names = &self.names;
        if self.dry_run {
            return preview(session, names, async |name| {
                let cluster = current(&rest, name, "read").await?;
                let many = usize::try_from(cluster.machines).unwrap_or(usize::MAX);
                let many = human::count(many, "machine");
                Ok(format!("would delete {name} and release {many}"))
            })
            .await;
        }
        let question = format!("Delete {} with everything in them?", names.join(", "));
        session.confirm(&question, self.yes)?;
        let begin = async |name: &str| {
            let begun = rest.delete_cluster(name).await;
            begun.map_err(unable(format!("delete the cluster {name}")))
        };
        let wait = &self.wait;
        wait.each(session, &rest, &LABELS, names, begin).await
    }
}
