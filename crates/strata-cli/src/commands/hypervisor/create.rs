//! `strata hypervisor create`: brings machines up. One that is up is done at
//! once.

use clap::Args;
use serde_json::json;
use strata_client::rest::Hypervisor;

use super::HypervisorsArg;
use crate::commands::bulk::preview;
use crate::commands::machine::current;
use crate::commands::operation_wait::{ActionLabels, WaitArgs};
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::view::{can, phase_word};

/// Boot machines as hypervisors
#[derive(Args, Debug)]
#[command(after_help = "\
Each is booted, joined, verified with a process in a cell, and made
schedulable. If that fails, it is taken down again. Ctrl-C detaches; the
operation continues on the server.

Examples:
  strata hypervisor create rack1-7
  strata hypervisor create rack1-7 rack1-8 --detach")]
pub struct Create {
    #[command(flatten)]
    which: HypervisorsArg,

    #[command(flatten)]
    wait: WaitArgs,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

const LABELS: ActionLabels = ActionLabels {
    doing: "creating",
    done: "created",
};

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let ids = &self.which.ids;
        if self.dry_run {
            return preview(session, ids, async |id| {
                let machine = current(&rest, id, "read").await?;
                Ok(match can(&machine) {
                    Some("create") => format!("would create {id}"),
                    _ => format!("{id} would not change: {}", phase_word(&machine)),
                })
            })
            .await;
        }
        let begin = async |id: &str| {
            let begun = rest.begin::<Hypervisor>(id, "create", &json!({})).await;
            begun.map_err(unable(format!("create the hypervisor {id}")))
        };
        let wait = &self.wait;
        wait.each(session, &rest, &LABELS, ids, begin).await
    }
}
