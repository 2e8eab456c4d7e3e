//! `strata cluster nodes`: the machines of a cluster and their nodes.

use clap::Args;
use strata_api::rest::{Cluster, ClusterNode};
use strata_client::rest::Query;

use super::ClusterArg;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List the machines and nodes of a cluster
#[derive(Args, Debug)]
#[command(after_help = "\
STATUS is the state of the Kubernetes node, PHASE that of its machine.

Examples:
  strata cluster nodes dev
  strata cluster nodes dev -o wide")]
pub struct Nodes {
    #[command(flatten)]
    one: ClusterArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Nodes {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        let query = Query::new();
        let nodes = rest.part::<Cluster, Vec<ClusterNode>>(name, "node", &query);
        let failed = unable(format!("list the nodes of {name}"));
        let nodes = nodes.await.map_err(failed)?;
        let empty = format!("{name} has no machines");
        output::rows(session, self.output.format(), &nodes, &empty)
    }
}
