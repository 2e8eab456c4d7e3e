//! `strata instance delete`: takes instances away, with all they wrote.

use clap::Args;
use strata_api::rest::Instance;

use super::follow::Goal;
use super::state_change::{InstanceWaitArgs, StateChange};
use super::{InstancesArg, current};
use crate::commands::bulk::{BulkAction, preview};
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::view::status_word;

/// Delete instances and their data
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance delete web
  strata instance delete shop/web shop/db --yes --detach")]
pub struct Delete {
    #[command(flatten)]
    which: InstancesArg,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Delete the records of instances whose deletion hangs; their nodes are
    /// notified when reachable
    #[arg(long, conflicts_with = "detach")]
    force: bool,

    #[command(flatten)]
    wait: InstanceWaitArgs,
}

impl Delete {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.wait.dry_run {
            return preview(session, &self.which.names, async |name| {
                let now = current(&rest, name, &self.which.scope, "read").await?;
                let status = status_word(now.object.status);
                Ok(format!("would delete {name}, which is {status}"))
            })
            .await;
        }
        let question = format!("Delete {}?", self.which.names.join(", "));
        session.confirm(&question, self.yes)?;
        if self.force {
            return ACTION
                .each_with(session, self.which.names, async |_, name| {
                    let query = self.which.scope.query().with("force", "true");
                    let gone = rest.delete::<Instance>(&name, &query).await;
                    gone.map_err(unable(format!("delete the instance {name}")))
                })
                .await;
        }
        let turn = StateChange {
            verb: "delete",
            asked: "deleting",
            goal: Goal::Gone,
        };
        turn.run(session, &rest, &self.which, self.wait.detach)
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "delete",
    done: "deleted",
    noun: "instance",
};
