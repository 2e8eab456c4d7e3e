//! `strata node drain`: moves the instances of a node elsewhere, and lets it
//! take no more. The server does it as an operation, which is followed here.

use clap::Args;
use strata_api::rest::{DrainRequest, Node};
use strata_client::rest::RestClient;

use super::{NodesArg, current};
use crate::commands::bulk::preview;
use crate::commands::operation_wait::{ActionLabels, WaitArgs};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Evict the instances of a node and make it unschedulable
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Waits until nothing is left on it. Ctrl-C detaches; the operation continues on
the server.

Examples:
  strata node drain rack1-7
  strata node drain rack1-7 --detach
  strata node drain rack1-7 --dry-run")]
pub struct Drain {
    #[command(flatten)]
    which: NodesArg,

    #[command(flatten)]
    wait: WaitArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

/// Labels of an action on nodes.
pub(super) struct DrainAction {
    pub(super) verb: &'static str,
    pub(super) words: ActionLabels,
    pub(super) leave: bool,
}

const DRAIN: DrainAction = DrainAction {
    verb: "drain",
    words: ActionLabels {
        doing: "draining",
        done: "drained",
    },
    leave: false,
};

impl Drain {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "read").await?;
                let many = human::count(node.instances, "instance");
                Ok(format!("would drain {name}, which has {many}"))
            })
            .await;
        }
        DRAIN
            .run(session, &rest, &self.which.names, &self.wait)
            .await
    }
}

impl DrainAction {
    /// Starts all of them, then waits for each.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        rest: &RestClient,
        names: &[String],
        wait: &WaitArgs,
    ) -> Result {
        wait.each(session, rest, &self.words, names, async |name| {
            let asked = DrainRequest { leave: self.leave };
            let begun = rest.begin::<Node>(name, "drain", &asked).await;
            begun.map_err(unable(format!("{} the node {name}", self.verb)))
        })
        .await
    }
}
