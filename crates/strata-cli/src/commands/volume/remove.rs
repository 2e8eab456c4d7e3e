//! `strata volume remove`: takes volumes away with all that is in them.

use clap::Args;
use strata_api::strata::v1::RemoveVolumeRequest;

use super::current;
use crate::commands::each::{Deed, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;

/// Remove volumes with all that is in them
#[derive(Args, Debug)]
#[command(after_help = "\
A volume that a pod has is refused, also when the pod does not run.

Examples:
  strata volume remove data
  strata volume remove data db --yes")]
pub struct Remove {
    /// The volumes
    #[arg(value_name = "NAME", required = true, add = complete::volumes())]
    names: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let volume = current(&node, name, "look at").await?;
                Ok(match volume.used_by.as_slice() {
                    [] => format!("would remove {name}"),
                    pods => format!(
                        "would refuse to remove {name}: in use by {}",
                        pods.join(", ")
                    ),
                })
            })
            .await;
        }
        session.confirm(&format!("Remove {}?", self.names.join(", ")), self.yes)?;
        DEED.each(session, &node, self.names, async |name| {
            node.volumes().remove(RemoveVolumeRequest { name }).await
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "remove",
    done: "removed",
    noun: "volume",
};
