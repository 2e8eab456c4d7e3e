//! `strata instance start`: what rests, failed or has ended runs again.

use clap::Args;
use strata_api::rest::InstanceState;

use super::follow::Goal;
use super::state_change::{InstanceWaitArgs, StateChange};
use super::{InstancesArg, current};
use crate::commands::bulk::preview;
use crate::failure::Result;
use crate::session::Session;

/// Start instances
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance start web
  strata instance start web db --project shop --detach")]
pub struct Start {
    #[command(flatten)]
    which: InstancesArg,

    #[command(flatten)]
    wait: InstanceWaitArgs,
}

impl Start {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.wait.dry_run {
            return preview(session, &self.which.names, async |name| {
                let now = current(&rest, name, &self.which.scope, "read").await?;
                Ok(match now.object.status {
                    InstanceState::Running => format!("{name} is already running"),
                    _ => format!("would start {name}"),
                })
            })
            .await;
        }
        let turn = StateChange {
            verb: "start",
            asked: "starting",
            goal: Goal::Running,
        };
        turn.run(session, &rest, &self.which, self.wait.detach)
            .await
    }
}
