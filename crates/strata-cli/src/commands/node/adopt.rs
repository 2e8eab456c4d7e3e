//! `strata node adopt`: the instances that another control plane assigned to a
//! node are this one's.

use clap::Args;
use strata_api::rest::Node;

use super::{NodesArg, current};
use crate::commands::bulk::{BulkAction, preview};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Adopt the instances that another control plane assigned to a node
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A node keeps the instances of another control plane unchanged. Once they are
adopted, those without a record are stopped, and destroyed after
orphan_grace_seconds of the node.

Examples:
  strata node show rack1-7
  strata node adopt rack1-7")]
pub struct Adopt {
    #[command(flatten)]
    which: NodesArg,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Adopt {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "read").await?;
                let many = human::count(node.unknown_instances.len(), "unknown instance");
                Ok(format!("would adopt {many} on {name}"))
            })
            .await;
        }
        ACTION
            .each_with(session, self.which.names, async |_, name| {
                let done = rest.order::<Node>(&name, "adopt").await;
                done.map_err(unable(format!("adopt the instances of node {name}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "adopt the instances of",
    done: "adopted the instances of",
    noun: "node",
};
