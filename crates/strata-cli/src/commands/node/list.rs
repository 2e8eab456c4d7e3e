//! `strata node list`: the nodes of the server, once or as they change.

use clap::Args;
use strata_api::rest::Node;
use strata_client::rest::Query;

use crate::commands::watch;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// The nodes of the server
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Before each / is what is kept for instances, behind it what the node has.

Examples:
  strata node list
  strata node list -o wide
  strata node list -w")]
pub struct List {
    /// Go on, and print what changes
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (format, query) = (self.output.format(), Query::new());
        if self.watch {
            return watch::watch(session, &rest, &query, format, |_: &mut Node| {}).await;
        }
        let mut nodes: Vec<Node> = rest.list(&query).await.map_err(unable("list the nodes"))?;
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let empty = "no nodes; let one join with `strata token create --name NAME --join`";
        output::rows(session, format, &nodes, empty)
    }
}
