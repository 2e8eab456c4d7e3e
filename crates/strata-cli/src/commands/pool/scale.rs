//! `strata pool scale`: another number of machines for a pool.

use clap::Args;
use strata_api::rest::ScalePool;

use super::Of;
use crate::commands::begun::Staying;
use crate::commands::cluster::plan;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Give a pool more machines, or fewer
#[derive(Args, Debug)]
#[command(after_help = "\
What goes is emptied first: broken machines, then those that are marked with
cluster.k8s.io/delete-machine, then the newest. Ctrl-C leaves it to the server.

Examples:
  strata pool scale dev web 5
  strata pool scale dev web 1 --dry-run")]
pub struct Scale {
    #[command(flatten)]
    of: Of,

    /// The pool
    pool: String,

    /// How many machines it is to have
    count: u32,

    /// Only say which machines would come and go
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
}

impl Scale {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (cluster, pool, count) = (&self.of.cluster, &self.pool, self.count);
        let failed = || unable(format!("scale the pool {pool} of {cluster}"));
        let to = ScalePool { count };
        if self.dry_run {
            let would = rest.plan_pool(cluster, pool, to).await.map_err(failed())?;
            return plan::print(session, self.staying.output().format(), &would);
        }
        let begun = rest.scale_pool(cluster, pool, to).await.map_err(failed())?;
        let told = (
            &*format!("scaling {pool} of {cluster} to {count}"),
            &*format!("scaled {pool} of {cluster} to {count}"),
        );
        self.staying.one(session, &rest, &begun, told).await
    }
}
