//! `strata node adopt`: the instances that another control plane assigned to a
//! node are this one's.

use clap::Args;
use strata_api::rest::Node;

use super::{Several, current};
use crate::commands::each::{Deed, preview};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Take over the instances that another control plane assigned to a node
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A node leaves the instances of another control plane as they are. Once they are
this one's, those that it has no record of are stopped, and destroyed after
the node's orphan_grace_seconds.

Examples:
  strata node show rack1-7
  strata node adopt rack1-7")]
pub struct Adopt {
    #[command(flatten)]
    which: Several,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Adopt {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "look at").await?;
                let many = human::count(node.unknown_instances.len(), "unknown instance");
                Ok(format!("would take over {many} on {name}"))
            })
            .await;
        }
        DEED.of_each(session, self.which.names, async |_, name| {
            let done = rest.order::<Node>(&name, "adopt").await;
            done.map_err(unable(format!("adopt the instances of node {name}")))
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "adopt the instances of",
    done: "adopted the instances of",
    noun: "node",
};
