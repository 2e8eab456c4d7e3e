//! `strata instance stop`: ends what runs; what it wrote and its place stay.

use clap::Args;

use super::follow::Goal;
use super::turn::{Staying, Turn};
use super::{Several, current};
use crate::commands::each::preview;
use crate::failure::Result;
use crate::session::Session;
use crate::view::status_word;

/// End what runs in instances; what they wrote stays
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance stop web
  strata instance stop web db --detach")]
pub struct Stop {
    #[command(flatten)]
    which: Several,

    #[command(flatten)]
    staying: Staying,
}

impl Stop {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.staying.dry_run {
            return preview(session, &self.which.names, async |name| {
                let now = current(&rest, name, &self.which.scope, "look at").await?;
                let status = status_word(now.object.status);
                Ok(format!("would stop {name}, which is {status}"))
            })
            .await;
        }
        let turn = Turn {
            verb: "stop",
            asked: "stopping",
            goal: Goal::Stopped,
        };
        turn.run(session, &rest, &self.which, self.staying.detach)
            .await
    }
}
