//! `strata pool delete`: takes pools away and gives their machines back.

use clap::Args;

use super::ClusterOfPool;
use crate::commands::bulk::preview;
use crate::commands::cluster::current;
use crate::commands::operation_wait::{ActionLabels, WaitArgs};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Delete node pools and release their machines
#[derive(Args, Debug)]
#[command(after_help = "\
Each machine is drained first. Ctrl-C detaches; the operation continues on the
server.

Examples:
  strata pool delete dev web
  strata pool delete dev web train --yes")]
pub struct Delete {
    #[command(flatten)]
    of: ClusterOfPool,

    /// Names of the node pools
    #[arg(value_name = "POOL", required = true)]
    pools: Vec<String>,

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
        let (cluster, pools) = (&self.of.cluster, &self.pools);
        if self.dry_run {
            let found = current(&rest, cluster, "read").await?;
            return preview(session, pools, async |name| {
                let pool = found.pools.iter().find(|pool| pool.name == name);
                Ok(match pool {
                    None => format!("{cluster} has no pool {name}"),
                    Some(pool) => {
                        let many = usize::try_from(pool.count).unwrap_or(usize::MAX);
                        let many = human::count(many, "machine");
                        format!("would delete {name} and release {many}")
                    }
                })
            })
            .await;
        }
        let question = format!("Delete {} of {cluster}?", pools.join(", "));
        session.confirm(&question, self.yes)?;
        let begin = async |pool: &str| {
            let begun = rest.delete_pool(cluster, pool).await;
            begun.map_err(unable(format!("delete the pool {pool} of {cluster}")))
        };
        let wait = &self.wait;
        wait.each(session, &rest, &LABELS, pools, begin).await
    }
}
