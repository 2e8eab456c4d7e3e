//! `strata instance delete`: takes instances away, with all they wrote.

use clap::Args;
use strata_api::rest::Instance;

use super::follow::Goal;
use super::turn::{Staying, Turn};
use super::{Several, current};
use crate::commands::each::{Deed, preview};
use crate::failure::{Result, unable};
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

    /// Forget those that are being deleted and do not go; their nodes are sent
    /// that when they can be
    #[arg(long, conflicts_with = "detach")]
    force: bool,

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
        if self.force {
            return DEED
                .of_each(session, self.which.names, async |_, name| {
                    let query = self.which.scope.query().with("force", "true");
                    let gone = rest.delete::<Instance>(&name, &query).await;
                    gone.map_err(unable(format!("delete the instance {name}")))
                })
                .await;
        }
        let turn = Turn {
            verb: "delete",
            asked: "deleting",
            goal: Goal::Gone,
        };
        turn.run(session, &rest, &self.which, self.staying.detach)
            .await
    }
}

const DEED: Deed = Deed {
    verb: "delete",
    done: "deleted",
    noun: "instance",
};
