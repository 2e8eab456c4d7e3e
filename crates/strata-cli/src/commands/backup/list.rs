//! `strata backup list`: what can be brought back.

use clap::Args;

use super::all;
use crate::failure::Result;
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List backups, oldest first
#[derive(Args, Debug)]
#[command(after_help = "\
SIZE is the size of its contents, STORED what it added to the repository.
Times are in UTC.

Examples:
  strata backup list
  strata backup list -o wide")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = all(&rest).await?;
        let empty = "no backups; create one with `strata backup create`";
        output::rows(session, self.output.format(), &found, empty)
    }
}
