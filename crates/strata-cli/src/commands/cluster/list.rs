//! `strata cluster list`: the clusters, once or as they change.

use clap::Args;
use strata_api::rest::Cluster;
use strata_client::rest::Query;

use crate::commands::watch;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// The clusters
#[derive(Args, Debug)]
#[command(after_help = "\
READY is how many nodes are, of how many machines.

Examples:
  strata cluster list
  strata cluster list -o wide
  strata cluster list -w")]
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
            return watch::watch(session, &rest, &query, format, |_: &mut Cluster| {}).await;
        }
        let found = rest.list::<Cluster>(&query).await;
        let mut found = found.map_err(unable("list the clusters"))?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let empty = "no clusters; make one with `strata cluster create NAME --workers N`";
        output::rows(session, format, &found, empty)
    }
}
