//! `strata pool delete`: takes pools away and gives their machines back.

use clap::Args;

use super::Of;
use crate::commands::begun::{Doing, Staying};
use crate::commands::cluster::current;
use crate::commands::each::preview;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Take pools away; their machines are given back
#[derive(Args, Debug)]
#[command(after_help = "\
Each machine is emptied first. Ctrl-C leaves it to the server.

Examples:
  strata pool delete dev web
  strata pool delete dev web train --yes")]
pub struct Delete {
    #[command(flatten)]
    of: Of,

    /// The pools
    #[arg(value_name = "POOL", required = true)]
    pools: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
}

const WORDS: Doing = Doing {
    doing: "deleting",
    done: "deleted",
};

impl Delete {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (cluster, pools) = (&self.of.cluster, &self.pools);
        if self.dry_run {
            let found = current(&rest, cluster, "look at").await?;
            return preview(session, pools, async |name| {
                let pool = found.pools.iter().find(|pool| pool.name == name);
                Ok(match pool {
                    None => format!("{cluster} has no pool {name}"),
                    Some(pool) => {
                        let many = usize::try_from(pool.count).unwrap_or(usize::MAX);
                        let many = human::count(many, "machine");
                        format!("would delete {name} and give back {many}")
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
        let staying = &self.staying;
        staying.each(session, &rest, &WORDS, pools, begin).await
    }
}
