//! `strata node remove`: empties a node and forgets it.

use clap::Args;

use super::drain::Emptying;
use super::{Several, current};
use crate::commands::begun::{Doing, Staying};
use crate::commands::each::preview;
use crate::failure::Result;
use crate::output::human;
use crate::session::Session;

/// Drain a node and forget it
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Its instances are started elsewhere first. Its certificates are revoked then: it
joins again with a new token.
Stays until it is gone. Ctrl-C leaves it to the server.

Examples:
  strata node remove rack1-7
  strata node remove rack1-7 rack1-8 --yes --detach")]
pub struct Remove {
    #[command(flatten)]
    which: Several,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    staying: Staying,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

const REMOVE: Emptying = Emptying {
    verb: "remove",
    words: Doing {
        doing: "removing",
        done: "removed",
    },
    leave: true,
};

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.which.names, async |name| {
                let node = current(&rest, name, "look at").await?;
                Ok(match node.instances {
                    0 => format!("would remove {name}"),
                    n => format!(
                        "would move {}, then remove {name}",
                        human::count(n, "instance")
                    ),
                })
            })
            .await;
        }
        let question = format!("Remove {}?", self.which.names.join(", "));
        session.confirm(&question, self.yes)?;
        REMOVE
            .run(session, &rest, &self.which.names, &self.staying)
            .await
    }
}
