//! `strata audit list`: the latest decisions.

use clap::Args;
use strata_audit::Entry;

use super::{Selection, directory};
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// Show the latest entries
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata audit list
  strata audit list --refused --limit 20
  strata audit list --sessions --remote
  strata audit list --project shop --object instance/web
  strata audit list --principal ann -o json | jq -r .call")]
pub struct List {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let entries = match self.selection.remote {
            false => self.selection.latest(&directory(session))?.entries,
            true => {
                let rest = session.rest().await?;
                let found = rest.list::<Entry>(&self.selection.query()).await;
                found.map_err(unable("read the audit log"))?
            }
        };
        output::rows(session, self.output.format(), &entries, "no entries")
    }
}
