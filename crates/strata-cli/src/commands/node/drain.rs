//! `strata node drain`: moves the instances of a node elsewhere, and lets it
//! take no more. The server does it as an operation, which is followed here.

use clap::Args;
use strata_api::rest::{DrainRequest, Node};
use strata_client::rest::RestClient;

use super::{Several, current};
use crate::commands::begun::{Doing, Staying};
use crate::commands::each::preview;
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Move the instances of a node elsewhere, and let it take no more
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Stays until nothing is left on it. Ctrl-C leaves it to the server.

Examples:
  strata node drain rack1-7
  strata node drain rack1-7 --detach
  strata node drain rack1-7 --dry-run")]
pub struct Drain {
    #[command(flatten)]
    which: Several,

    #[command(flatten)]
    staying: Staying,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// What is done to nodes, in the words of its messages.
pub(super) struct Emptying {
    pub(super) verb: &'static str,
    pub(super) words: Doing,
    pub(super) leave: bool,
}

const DRAIN: Emptying = Emptying {
    verb: "drain",
    words: Doing {
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
                let node = current(&rest, name, "look at").await?;
                let many = human::count(node.instances, "instance");
                Ok(format!("would drain {name}, which has {many}"))
            })
            .await;
        }
        DRAIN
            .run(session, &rest, &self.which.names, &self.staying)
            .await
    }
}

impl Emptying {
    /// Begins with all of them, then waits for each.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        rest: &RestClient,
        names: &[String],
        staying: &Staying,
    ) -> Result {
        staying
            .each(session, rest, &self.words, names, async |name| {
                let asked = DrainRequest { leave: self.leave };
                let begun = rest.begin::<Node>(name, "drain", &asked).await;
                begun.map_err(unable(format!("{} the node {name}", self.verb)))
            })
            .await
    }
}
