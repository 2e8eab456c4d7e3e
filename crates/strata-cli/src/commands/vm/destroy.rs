//! `strata vm destroy`: stops virtual machines and takes everything of them
//! away.

use clap::Args;
use strata_api::strata::v1::DestroyVmRequest;

use super::current;
use crate::commands::each::{Deed, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::label_name;

/// Stop virtual machines and take everything of them away
#[derive(Args, Debug)]
#[command(after_help = "\
Their clones of images go, and what they wrote to them; the images stay.

Examples:
  strata vm destroy build
  strata vm destroy build db --yes")]
pub struct Destroy {
    /// The virtual machines
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::vms())]
    names: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Destroy {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        if self.dry_run {
            return preview(session, &self.names, async |name| {
                let vm = current(&node, name, "look at").await?;
                Ok(format!("would destroy {name} ({})", vm.status.state))
            })
            .await;
        }
        session.confirm(&format!("Destroy {}?", self.names.join(", ")), self.yes)?;
        DEED.each(session, &node, self.names, async |name| {
            node.vms().destroy(DestroyVmRequest { name }).await
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "destroy",
    done: "destroyed",
    noun: "vm",
};
