//! `strata instance start`: what rests, failed or has ended runs again.

use clap::Args;
use strata_api::rest::InstanceState;

use super::follow::Goal;
use super::turn::{Staying, Turn};
use super::{Several, current};
use crate::commands::each::preview;
use crate::failure::Result;
use crate::session::Session;

/// Start instances that rest, failed or have ended
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance start web
  strata instance start web db --project shop --detach")]
pub struct Start {
    #[command(flatten)]
    which: Several,

    #[command(flatten)]
    staying: Staying,
}

impl Start {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.staying.dry_run {
            return preview(session, &self.which.names, async |name| {
                let now = current(&rest, name, &self.which.scope, "look at").await?;
                Ok(match now.object.status {
                    InstanceState::Running => format!("{name} is running already"),
                    _ => format!("would start {name}"),
                })
            })
            .await;
        }
        let turn = Turn {
            verb: "start",
            asked: "starting",
            goal: Goal::Running,
        };
        turn.run(session, &rest, &self.which, self.staying.detach)
            .await
    }
}
