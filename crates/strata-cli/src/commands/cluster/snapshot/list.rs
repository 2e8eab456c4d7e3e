//! `strata cluster snapshot list`: what a cluster can be put back to.

use clap::Args;
use strata_api::rest::{Cluster, ClusterSnapshot};
use strata_client::rest::Query;

use crate::commands::cluster::ClusterArg;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List the snapshots of a cluster, oldest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata cluster snapshot list dev
  strata cluster snapshot list dev -o name")]
pub struct List {
    #[command(flatten)]
    one: ClusterArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        let query = Query::new();
        let found = rest.part::<Cluster, Vec<ClusterSnapshot>>(name, "snapshot", &query);
        let failed = unable(format!("list the snapshots of {name}"));
        let found = found.await.map_err(failed)?;
        let empty =
            format!("no snapshots; create one with `strata cluster snapshot create {name}`");
        output::rows(session, self.output.format(), &found, &empty)
    }
}
