//! `strata machine remove`: forgets machines. What is up must be taken down
//! first.

use clap::Args;
use strata_api::rest::{Machine, MachinePhase};
use strata_client::rest::Query;

use super::current;
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::view::phase_word;

/// Deregister machines that are down
#[derive(Args, Debug)]
#[command(after_help = "\
The machine itself is not changed. A machine that is up is rejected; take it
down with `strata hypervisor drain ID --destroy` first.

Examples:
  strata machine remove rack1-7
  strata machine remove rack1-7 rack1-8 --yes")]
pub struct Remove {
    /// IDs of the machines
    #[arg(value_name = "ID", required = true, add = complete::inventory())]
    ids: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.ids, async |id| {
                let machine = current(&rest, id, "read").await?;
                Ok(match machine.phase {
                    MachinePhase::Available => format!("would remove {id}"),
                    _ => format!("{id} would not be removed: it is {}", phase_word(&machine)),
                })
            })
            .await;
        }
        session.confirm(&format!("Remove {}?", self.ids.join(", ")), self.yes)?;
        ACTION
            .each_with(session, self.ids, async |_, id| {
                let answer = rest.delete::<Machine>(&id, &Query::new()).await;
                answer.map_err(unable(format!("remove the machine {id}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "remove",
    done: "removed",
    noun: "machine",
};
