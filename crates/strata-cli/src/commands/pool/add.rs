//! `strata pool add`: more workers for a cluster, apart from the others.

use clap::Args;
use strata_api::rest::NodePool;

use super::ClusterOfPool;
use crate::commands::cluster::current;
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;
use crate::values::{LabelArg, PoolArg};

/// Add a node pool to a cluster
#[derive(Args, Debug)]
#[command(after_help = "\
Ctrl-C detaches; the operation continues on the server.

Examples:
  strata pool add dev web=3
  strata pool add dev train=2:gpu --label tier=gpu --detach")]
pub struct Add {
    #[command(flatten)]
    of: ClusterOfPool,

    /// Name and number of machines, with or without GPUs
    #[arg(value_name = "NAME=COUNT[:gpu]")]
    pool: PoolArg,

    /// Label of its nodes; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Add {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (cluster, name) = (&self.of.cluster, &self.pool.name);
        if self.dry_run {
            let found = current(&rest, cluster, "read").await?;
            let many = usize::try_from(self.pool.count).unwrap_or(usize::MAX);
            let many = human::count(many, "machine");
            let line = match found.pools.iter().any(|pool| pool.name == *name) {
                true => format!("{cluster} already has a pool {name}\n"),
                false => format!("would add {name} with {many} to {cluster}\n"),
            };
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let labels = self.labels.into_iter();
        let pool = NodePool {
            name: name.clone(),
            count: self.pool.count,
            instance_type: self.pool.instance_type,
            labels: labels.map(|LabelArg(key, value)| (key, value)).collect(),
        };
        let begun = rest.add_pool(cluster, &pool).await;
        let begun = begun.map_err(unable(format!("add the pool {name} to {cluster}")))?;
        let told = (
            &*format!("adding {name} to {cluster}"),
            &*format!("added {name} to {cluster}"),
        );
        self.wait.one(session, &rest, &begun, told).await
    }
}
