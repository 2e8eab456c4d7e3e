//! `strata node remove`: empties a node and forgets it.

use clap::Args;
use strata_api::rest::Node;
use strata_client::rest::Query;

use super::drain::DrainAction;
use super::{NodesArg, current};
use crate::commands::bulk::{BulkAction, preview};
use crate::commands::operation_wait::{ActionLabels, WaitArgs};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Drain and delete a node
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Its instances are rescheduled first. Its certificates are revoked: it joins
again with a new token. Ctrl-C detaches; the operation continues on the
server.

With --now a node that is not trusted is not asked: its certificates are
revoked and its connections closed first. Its instances are rescheduled when
its lease has ended, and then its record is deleted.

Examples:
  strata node remove rack1-7 --now
  strata node remove rack1-7
  strata node remove rack1-7 rack1-8 --yes --detach")]
pub struct Remove {
    #[command(flatten)]
    which: NodesArg,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Revoke the node at once, without waiting for it
    #[arg(long, conflicts_with = "detach")]
    now: bool,

    #[command(flatten)]
    wait: WaitArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

const REMOVE: DrainAction = DrainAction {
    verb: "remove",
    words: ActionLabels {
        doing: "removing",
        done: "removed",
    },
    leave: true,
};

const REVOKE: BulkAction = BulkAction {
    verb: "remove",
    done: "revoked",
    noun: "node",
};

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "read").await?;
                Ok(match node.instances {
                    0 => format!("would remove {name}"),
                    n => format!(
                        "would evict {}, then remove {name}",
                        human::count(n, "instance")
                    ),
                })
            })
            .await;
        }
        let question = format!("Remove {}?", self.which.names.join(", "));
        session.confirm(&question, self.yes)?;
        if self.now {
            return REVOKE
                .each_with(session, self.which.names, async |_, name| {
                    let query = Query::new().with("now", "true");
                    let gone = rest.delete::<Node>(&name, &query).await;
                    gone.map_err(unable(format!("remove the node {name}")))
                })
                .await;
        }
        REMOVE
            .run(session, &rest, &self.which.names, &self.wait)
            .await
    }
}
