//! `strata operation cancel`: calls long actions off. The server undoes what
//! they did, which takes its time.

use clap::Args;
use strata_api::rest::Operation;
use strata_client::rest::Query;

use super::{current, title};
use crate::commands::each::{Deed, preview};
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::view::operation_word;

/// Call long actions off; what they did is undone
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata operation cancel 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e
  strata operation cancel 0192f0c1-7f3a-7cc2-9d5e-3b1f8a2c4d6e --yes")]
pub struct Cancel {
    /// The ids of the operations
    #[arg(value_name = "ID", required = true, add = complete::operations())]
    ids: Vec<String>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Cancel {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        if self.dry_run {
            return preview(session, &self.ids, async |id| {
                let now = current(&rest, id, "look at").await?;
                let (title, status) = (title(&now), operation_word(now.status));
                Ok(format!("would cancel {title}, which is {status}"))
            })
            .await;
        }
        let question = format!("Cancel {}?", self.ids.join(", "));
        session.confirm(&question, self.yes)?;
        DEED.of_each(session, self.ids, async |_, id| {
            let answer = rest.delete::<Operation>(&id, &Query::new()).await;
            answer.map_err(unable(format!("cancel the operation {id}")))
        })
        .await
    }
}

const DEED: Deed = Deed {
    verb: "cancel",
    done: "cancelling",
    noun: "operation",
};
