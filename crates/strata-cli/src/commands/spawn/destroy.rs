//! `strata spawn destroy`: ends machines and takes everything of them away.

use clap::Args;
use strata_api::strata::v1::DestroyMachineRequest;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::label_name;

/// Stop and delete nested nodes
#[derive(Args, Debug)]
#[command(after_help = "\
Everything that runs on a nested node is stopped.

Examples:
  strata spawn destroy n1
  strata spawn destroy n1 n2 --yes")]
pub struct Destroy {
    /// Names of the nested nodes
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::machines())]
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
                let machine = current(&node, name, "read").await?;
                Ok(format!("would destroy {name} ({})", machine.status.state))
            })
            .await;
        }
        session.confirm(&format!("Destroy {}?", self.names.join(", ")), self.yes)?;
        ACTION
            .each(session, &node, self.names, async |name| {
                node.spawn().destroy(DestroyMachineRequest { name }).await
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "destroy",
    done: "destroyed",
    noun: "machine",
};
