//! `strata operation cancel`: calls long actions off. The server undoes what
//! they did, which takes its time.

use clap::Args;
use strata_api::rest::Operation;
use strata_client::rest::Query;

use super::{current, title};
use crate::commands::bulk::{BulkAction, preview};
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::view::operation_word;

/// Cancel operations and roll them back
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata operation cancel 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
  strata operation cancel 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e --yes")]
pub struct Cancel {
    /// Operation IDs
    #[arg(value_name = "ID", required = true, add = complete::operations())]
    ids: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl Cancel {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.ids, async |id| {
                let now = current(&rest, id, "read").await?;
                let (title, status) = (title(&now), operation_word(now.status));
                Ok(format!("would cancel {title}, which is {status}"))
            })
            .await;
        }
        let question = format!("Cancel {}?", self.ids.join(", "));
        session.confirm(&question, self.yes)?;
        ACTION
            .each_with(session, self.ids, async |_, id| {
                let answer = rest.delete::<Operation>(&id, &Query::new()).await;
                answer.map_err(unable(format!("cancel the operation {id}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "cancel",
    done: "cancelling",
    noun: "operation",
};
