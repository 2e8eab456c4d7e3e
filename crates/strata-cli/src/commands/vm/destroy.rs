//! `strata vm destroy`: stops virtual machines and takes everything of them
//! away.

use clap::Args;
use strata_api::strata::v1::DestroyVmRequest;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::label_name;

/// Stop and delete virtual machines
#[derive(Args, Debug)]
#[command(after_help = "\
Their clones of images are deleted with all changes; the images are kept.

Examples:
  strata vm destroy build
  strata vm destroy build db --yes")]
pub struct Destroy {
    /// Names of the virtual machines
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::vms())]
    names: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Destroy {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let vm = current(&node, name, "read").await?;
                Ok(format!("would destroy {name} ({})", vm.status.state))
            })
            .await;
        }
        session.confirm(&format!("Destroy {}?", self.names.join(", ")), self.yes)?;
        ACTION
            .each(session, &node, self.names, async |name| {
                node.vms().destroy(DestroyVmRequest { name }).await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "destroy",
    done: "destroyed",
    noun: "vm",
};
