//! `strata node remove`: empties a node and forgets it.

use clap::Args;
use strata_api::rest::Node;
use strata_client::rest::Query;

use super::{Several, current};
use crate::commands::each::{Deed, preview};
use crate::failure::{Result, unable};
use crate::output::human;
use crate::session::Session;

/// Drain a node and forget it
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Its instances are started elsewhere first. It may join again later.

Examples:
  strata node remove rack1-7
  strata node remove rack1-7 rack1-8 --yes")]
pub struct Remove {
    #[command(flatten)]
    which: Several,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

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
        DEED.of_each(session, self.which.names, async |_, name| {
            let answer = rest.delete::<Node>(&name, &Query::new()).await;
            answer.map_err(unable(format!("remove the node {name}")))
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "remove",
    done: "removing",
    noun: "node",
};
