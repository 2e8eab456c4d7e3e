//! `strata cluster snapshot create`: keeps the state of a cluster.

use clap::Args;
use serde_json::json;
use strata_api::rest::Cluster;

use crate::commands::cluster::{ClusterArg, current};
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Create a snapshot of a cluster
#[derive(Args, Debug)]
#[command(after_help = "\
A snapshot holds the etcd of the cluster, not its volumes. The server also
creates snapshots automatically.

Examples:
  strata cluster snapshot create dev
  strata cluster snapshot create dev --detach")]
pub struct Create {
    #[command(flatten)]
    one: ClusterArg,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        if self.dry_run {
            current(&rest, name, "read").await?;
            let line = format!("would create a snapshot of {name}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let begun = rest.begin::<Cluster>(name, "snapshot", &json!({})).await;
        let begun = begun.map_err(unable(format!("create a snapshot of {name}")))?;
        let told = (
            &*format!("creating a snapshot of {name}"),
            &*format!("created a snapshot of {name}"),
        );
        self.wait.one(session, &rest, &begun, told).await
    }
}
