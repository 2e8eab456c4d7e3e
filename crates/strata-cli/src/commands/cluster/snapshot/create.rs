//! `strata cluster snapshot create`: keeps the state of a cluster.

use clap::Args;
use serde_json::json;
use strata_api::rest::Cluster;

use crate::commands::begun::Staying;
use crate::commands::cluster::{One, current};
use crate::failure::{Result, unable};
use crate::session::Session;

/// Keep the state of a cluster as it is now
#[derive(Args, Debug)]
#[command(after_help = "\
It is what the cluster knows, not what its volumes hold. The server makes some
by itself, too.

Examples:
  strata cluster snapshot create dev
  strata cluster snapshot create dev --detach")]
pub struct Create {
    #[command(flatten)]
    one: One,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    staying: Staying,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let name = &self.one.name;
        if self.dry_run {
            current(&rest, name, "look at").await?;
            let line = format!("would keep the state of {name}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let begun = rest.begin::<Cluster>(name, "snapshot", &json!({})).await;
        let begun = begun.map_err(unable(format!("keep the state of {name}")))?;
        let told = (
            &*format!("keeping the state of {name}"),
            &*format!("kept the state of {name}"),
        );
        self.staying.one(session, &rest, &begun, told).await
    }
}
