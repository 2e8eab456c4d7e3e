//! `strata backup schedule list`: when backups are made by themselves.

use clap::Args;
use strata_api::rest::BackupSchedule;
use strata_client::rest::Query;

use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;

/// List backup schedules
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata backup schedule list
  strata backup schedule list -o yaml")]
pub struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let found = rest.list::<BackupSchedule>(&Query::new()).await;
        let mut found = found.map_err(unable("list the schedules"))?;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let empty = "no schedules; add one with `strata backup schedule add NAME --when WHEN`";
        output::rows(session, self.output.format(), &found, empty)
    }
}
