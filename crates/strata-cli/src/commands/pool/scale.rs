//! `strata pool scale`: another number of machines for a pool.

use clap::Args;
use strata_api::rest::ScalePool;

use super::ClusterOfPool;
use crate::commands::cluster::plan;
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Scale a node pool
#[derive(Args, Debug)]
#[command(after_help = "\
Removed machines are drained first: broken ones, then those marked with
cluster.k8s.io/delete-machine, then the newest. Ctrl-C detaches; the operation
continues on the server.

Examples:
  strata pool scale dev web 5
  strata pool scale dev web 1 --dry-run")]
pub struct Scale {
    #[command(flatten)]
    of: ClusterOfPool,

    /// Name of the node pool
    pool: String,

    /// Desired number of machines
    count: u32,

    /// Show which machines would be added or removed, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Scale {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (cluster, pool, count) = (&self.of.cluster, &self.pool, self.count);
        let failed = || unable(format!("scale the pool {pool} of {cluster}"));
        let to = ScalePool { count };
        if self.dry_run {
            let would = rest.plan_pool(cluster, pool, to).await.map_err(failed())?;
            return plan::print(session, self.wait.output().format(), &would);
        }
        let begun = rest.scale_pool(cluster, pool, to).await.map_err(failed())?;
        let told = (
            &*format!("scaling {pool} of {cluster} to {count}"),
            &*format!("scaled {pool} of {cluster} to {count}"),
        );
        self.wait.one(session, &rest, &begun, told).await
    }
}
