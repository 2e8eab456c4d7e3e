//! `strata pool list`: the pools of a cluster.

use clap::Args;
use strata_api::rest::{Cluster, PoolStatus};
use strata_client::rest::Query;

use super::ClusterOfPool;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List the node pools of a cluster
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata pool list dev
  strata pool list dev -o wide")]
pub struct List {
    #[command(flatten)]
    of: ClusterOfPool,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let cluster = &self.of.cluster;
        let query = Query::new();
        let pools = rest.part::<Cluster, Vec<PoolStatus>>(cluster, "pool", &query);
        let failed = unable(format!("list the pools of {cluster}"));
        let pools = pools.await.map_err(failed)?;
        let empty = format!("no pools; add one with `strata pool add {cluster} NAME=COUNT`");
        output::rows(session, self.output.format(), &pools, &empty)
    }
}
