//! `strata cluster list`: the clusters, once or as they change.

use clap::Args;
use strata_api::rest::Cluster;
use strata_client::rest::Query;

use crate::commands::watch;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// Names of the clusters
#[derive(Args, Debug)]
#[command(after_help = "\
READY is the number of ready nodes, of the number of machines.

Examples:
  strata cluster list
  strata cluster list -o wide
  strata cluster list -w")]
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
            return watch::watch(session, &rest, &query, format, |_: &mut Cluster| {}).await;
        }
        let found = rest.list::<Cluster>(&query).await;
        let mut found = found.map_err(unable("list the clusters"))?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let empty = "no clusters; create one with `strata cluster create NAME --workers N`";
        output::rows(session, format, &found, empty)
    }
}
