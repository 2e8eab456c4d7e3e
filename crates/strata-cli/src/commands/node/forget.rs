//! `strata node forget`: destroys the instances of a node that the server has
//! no record of.

use clap::Args;
use strata_api::rest::Node;

use super::{NodesArg, current};
use crate::commands::bulk::{BulkAction, preview};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Destroy the instances of a node that have no record in the server
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Destroys instances of other control planes and instances whose records were
lost, with their data. `strata node show` lists them.

Examples:
  strata node forget rack1-7
  strata node forget rack1-7 --yes")]
pub struct Forget {
    #[command(flatten)]
    which: NodesArg,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Forget {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "read").await?;
                let many = human::count(node.unknown_instances.len(), "unknown instance");
                Ok(format!("would destroy {many} on {name}"))
            })
            .await;
        }
        let names = self.which.names.join(", ");
        let question = format!("Destroy all instances on {names} without a record?");
        session.confirm(&question, self.yes)?;
        ACTION
            .each_with(session, self.which.names, async |_, name| {
                let done = rest.order::<Node>(&name, "forget").await;
                done.map_err(unable(format!("forget the instances of node {name}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "forget the instances of",
    done: "forgot the unknown instances of",
    noun: "node",
};
