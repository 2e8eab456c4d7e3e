//! `strata spawn destroy`: ends machines and takes everything of them away.

use clap::Args;
use strata_api::strata::v1::DestroyMachineRequest;

use super::current;
use crate::commands::each::{Deed, preview};
use crate::complete;
use crate::failure::Result;
use crate::session::Session;
use crate::values::label_name;

/// End machines and take everything of them away
#[derive(Args, Debug)]
#[command(after_help = "\
All that runs in a machine ends with it.

Examples:
  strata spawn destroy n1
  strata spawn destroy n1 n2 --yes")]
pub struct Destroy {
    /// The machines
    #[arg(value_name = "NAME", required = true, value_parser = label_name)]
    #[arg(add = complete::machines())]
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
                let machine = current(&node, name, "look at").await?;
                Ok(format!("would destroy {name} ({})", machine.status.state))
            })
            .await;
        }
        session.confirm(&format!("Destroy {}?", self.names.join(", ")), self.yes)?;
        DEED.each(session, &node, self.names, async |name| {
            node.spawn().destroy(DestroyMachineRequest { name }).await
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "destroy",
    done: "destroyed",
    noun: "machine",
};
