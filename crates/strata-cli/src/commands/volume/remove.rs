//! `strata volume remove`: takes volumes away with all that is in them.

use clap::Args;
use strata_api::strata::v1::RemoveVolumeRequest;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;

/// Delete volumes with their contents
#[derive(Args, Debug)]
#[command(after_help = "\
A volume of a pod is rejected, also if the pod is stopped.

Examples:
  strata volume remove data
  strata volume remove data db --yes")]
pub struct Remove {
    /// Names of the volumes
    #[arg(value_name = "NAME", required = true, add = complete::volumes())]
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
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let volume = current(&node, name, "read").await?;
                Ok(match volume.used_by.as_slice() {
                    [] => format!("would remove {name}"),
                    pods => format!("would not remove {name}: in use by {}", pods.join(", ")),
                })
            })
            .await;
        }
        session.confirm(&format!("Remove {}?", self.names.join(", ")), self.yes)?;
        ACTION
            .each(session, &node, self.names, async |name| {
                node.volumes().remove(RemoveVolumeRequest { name }).await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "remove",
    done: "removed",
    noun: "volume",
};
