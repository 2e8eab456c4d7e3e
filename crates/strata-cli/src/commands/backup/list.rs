//! `strata backup list`: what can be brought back.

use clap::Args;

use super::all;
use crate::failure::Result;
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// Backups, the latest last
#[derive(Args, Debug)]
#[command(after_help = "\
SIZE is what is in it, STORED what it took in the repository beyond what was
there. Times are in UTC.

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
        let empty = "no backups; make one with `strata backup create`";
        output::rows(session, self.output.format(), &found, empty)
    }
}
