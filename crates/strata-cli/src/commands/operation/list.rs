//! `strata operation list`: long actions that are under way, and those that
//! ended lately.

use clap::Args;
use strata_api::rest::Operation;
use strata_client::rest::Query;

use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List operations, oldest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata operation list
  strata operation list --state active -o wide")]
pub struct List {
    /// Only operations in this state
    #[arg(long, value_parser = ["scheduled", "active", "failed", "completed"])]
    state: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let state = self.state.map(|state| state.to_ascii_uppercase());
        let query = Query::new().maybe("state", state);
        let found = rest.list::<Operation>(&query).await;
        let mut found = found.map_err(unable("list the operations"))?;
        found.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
        output::rows(session, self.output.format(), &found, "no operations")
    }
}
