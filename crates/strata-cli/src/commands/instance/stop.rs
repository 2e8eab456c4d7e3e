//! `strata instance stop`: ends what runs; what it wrote and its place stay.

use clap::Args;

use super::follow::Goal;
use super::state_change::{InstanceWaitArgs, StateChange};
use super::{InstancesArg, current};
use crate::commands::bulk::preview;
use crate::failure::Result;
use crate::session::Session;
use crate::view::status_word;

/// Stop instances; their data is kept
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance stop web
  strata instance stop web db --detach")]
pub struct Stop {
    #[command(flatten)]
    which: InstancesArg,

    #[command(flatten)]
    wait: InstanceWaitArgs,
}

impl Stop {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.wait.dry_run {
            return preview(session, &self.which.names, async |name| {
                let now = current(&rest, name, &self.which.scope, "read").await?;
                let status = status_word(now.object.status);
                Ok(format!("would stop {name}, which is {status}"))
            })
            .await;
        }
        let turn = StateChange {
            verb: "stop",
            asked: "stopping",
            goal: Goal::Stopped,
        };
        turn.run(session, &rest, &self.which, self.wait.detach)
            .await
    }
}
