//! `strata storage volume remove`: takes volumes away with all that is in
//! them.

use clap::Args;
use strata_api::rest::PoolVolume;
use strata_client::rest::Query;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Delete volumes with their contents
#[derive(Args, Debug)]
#[command(after_help = "\
Snapshots are deleted with their volume; copies are kept.

Examples:
  strata storage volume remove data
  strata storage volume remove data trial --yes")]
pub struct Remove {
    /// Names of the volumes
    #[arg(value_name = "NAME", required = true, add = complete::pool_volumes())]
    names: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let volume = current(&rest, name, "read").await?;
                let freed = human::bytes(volume.exclusive_bytes);
                Ok(match volume.snapshots.len() {
                    0 => format!("would remove {name} and free {freed}"),
                    n => {
                        let many = human::count(n, "snapshot");
                        format!("would remove {name} with {many}")
                    }
                })
            })
            .await;
        }
        session.confirm(&format!("Remove {}?", self.names.join(", ")), self.yes)?;
        ACTION
            .each_with(session, self.names, async |_, name| {
                let answer = rest.delete::<PoolVolume>(&name, &Query::new()).await;
                answer.map_err(unable(format!("remove the volume {name}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "remove",
    done: "removed",
    noun: "volume",
};
