//! `strata instance delete`: takes instances away, with all they wrote.

use clap::Args;

use super::follow::Goal;
use super::turn::{Staying, Turn};
use super::{Several, current};
use crate::commands::each::preview;
use crate::failure::Result;
use crate::session::Session;
use crate::view::status_word;

/// Take instances away, with all they wrote
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata instance delete web
  strata instance delete shop/web shop/db --yes --detach")]
pub struct Delete {
    #[command(flatten)]
    which: Several,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    staying: Staying,
}

impl Delete {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.staying.dry_run {
            return preview(session, &self.which.names, async |name| {
                let now = current(&rest, name, &self.which.scope, "look at").await?;
                let status = status_word(now.object.status);
                Ok(format!("would delete {name}, which is {status}"))
            })
            .await;
        }
        let question = format!("Delete {}?", self.which.names.join(", "));
        session.confirm(&question, self.yes)?;
        let turn = Turn {
            verb: "delete",
            asked: "deleting",
            goal: Goal::Gone,
        };
        turn.run(session, &rest, &self.which, self.staying.detach)
            .await
    }
}
