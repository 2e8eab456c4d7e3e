//! `strata hypervisor create`: brings machines up. One that is up is done at
//! once.

use clap::Args;
use serde_json::json;
use strata_client::rest::Hypervisor;

use super::Several;
use crate::commands::begun::{Doing, Staying};
use crate::commands::each::preview;
use crate::commands::machine::current;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::view::{can, phase_word};

/// Bring machines up to host instances
#[derive(Args, Debug)]
#[command(after_help = "\
Each is booted, waited for, tried with a process in a cell, and opened. What
fails is taken down again. Ctrl-C leaves it to the server.

Examples:
  strata hypervisor create rack1-7
  strata hypervisor create rack1-7 rack1-8 --detach")]
pub struct Create {
    #[command(flatten)]
    which: Several,

    #[command(flatten)]
    staying: Staying,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

const WORDS: Doing = Doing {
    doing: "creating",
    done: "created",
};

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let ids = &self.which.ids;
        if self.dry_run {
            return preview(session, ids, async |id| {
                let machine = current(&rest, id, "look at").await?;
                Ok(match can(&machine) {
                    Some("create") => format!("would create {id}"),
                    _ => format!("{id} would stay as it is: {}", phase_word(&machine)),
                })
            })
            .await;
        }
        let begin = async |id: &str| {
            let begun = rest.begin::<Hypervisor>(id, "create", &json!({})).await;
            begun.map_err(unable(format!("create the hypervisor {id}")))
        };
        let staying = &self.staying;
        staying.each(session, &rest, &WORDS, ids, begin).await
    }
}
