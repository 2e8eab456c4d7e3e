//! `strata machine list`: the machines of the inventory.

use clap::Args;

use super::all;
use crate::failure::Result;
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List machines
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata machine list
  strata machine list -o wide
  strata machine list -o json | jq -r '.[] | select(.phase == \"UP\").id'")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let machines = all(&rest).await?;
        let empty = "no machines; register one with `strata machine add ID --provider KIND`";
        output::rows(session, self.output.format(), &machines, empty)
    }
}
