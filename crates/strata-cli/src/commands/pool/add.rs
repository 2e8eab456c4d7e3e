//! `strata pool add`: more workers for a cluster, apart from the others.

use clap::Args;
use strata_api::rest::NodePool;

use super::Of;
use crate::commands::begun::Staying;
use crate::commands::cluster::current;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;
use crate::values::{LabelArg, PoolArg};

/// Add a pool to a cluster
#[derive(Args, Debug)]
#[command(after_help = "\
Ctrl-C leaves it to the server.

Examples:
  strata pool add dev web=3
  strata pool add dev train=2:gpu --label tier=gpu --detach")]
pub struct Add {
    #[command(flatten)]
    of: Of,

    /// Its name, how many machines, and whether with a GPU
    #[arg(value_name = "NAME=COUNT[:gpu]")]
    pool: PoolArg,

    /// A label for its nodes
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
}

impl Add {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (cluster, name) = (&self.of.cluster, &self.pool.name);
        if self.dry_run {
            let found = current(&rest, cluster, "look at").await?;
            let many = usize::try_from(self.pool.count).unwrap_or(usize::MAX);
            let many = human::count(many, "machine");
            let line = match found.pools.iter().any(|pool| pool.name == *name) {
                true => format!("{cluster} has a pool {name} already\n"),
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
        self.staying.one(session, &rest, &begun, told).await
    }
}
