//! `strata secret delete`: secrets that nothing uses.

use clap::Args;
use strata_api::rest::Secret;

use crate::commands::bulk::BulkAction;
use crate::commands::scope::Scope;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::object_name;

/// Delete a secret that is not used
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata secret delete db-password
  strata secret delete shop/db-password --yes")]
pub struct Delete {
    /// Secrets: NAME or PROJECT/NAME
    #[arg(value_name = "NAME", required = true, value_parser = object_name)]
    #[arg(add = complete::secrets())]
    names: Vec<String>,

    #[command(flatten)]
    scope: Scope,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        session.confirm(&format!("Delete {}?", self.names.join(", ")), self.yes)?;
        let query = self.scope.query();
        ACTION
            .each_with(session, self.names, async |_, name| {
                let answer = rest.delete::<Secret>(&name, &query).await;
                answer.map_err(unable(format!("delete the secret {name}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "delete",
    done: "deleted",
    noun: "secret",
};
