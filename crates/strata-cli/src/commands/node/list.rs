//! `strata node list`: the nodes of the server, once or as they change.

use clap::Args;
use strata_api::rest::Node;
use strata_client::rest::Query;

use crate::commands::watch;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List nodes
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Reserved resources come before the slash, capacity after it.

Examples:
  strata node list
  strata node list -o wide
  strata node list -w")]
pub struct List {
    /// Watch for changes
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
        let empty = "no nodes; join one with `strata token create --name NAME --join`";
        output::rows(session, format, &nodes, empty)
    }
}
