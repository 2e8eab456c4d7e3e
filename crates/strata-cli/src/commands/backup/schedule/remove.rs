//! `strata backup schedule remove`: takes schedules away. What they made
//! stays.

use clap::Args;
use strata_api::rest::BackupSchedule;
use strata_client::rest::Query;

use crate::commands::bulk::BulkAction;
use crate::complete;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Delete backup schedules; their backups are kept
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata backup schedule remove nightly
  strata backup schedule remove nightly hourly --yes")]
pub struct Remove {
    /// Names of the schedules
    #[arg(value_name = "NAME", required = true, add = complete::backup_schedules())]
    names: Vec<String>,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
}

impl Remove {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        session.confirm(&format!("Remove {}?", self.names.join(", ")), self.yes)?;
        ACTION
            .each_with(session, self.names, async |_, name| {
                let answer = rest.delete::<BackupSchedule>(&name, &Query::new()).await;
                answer.map_err(unable(format!("remove the schedule {name}")))
            })
            .await
    }
}

const ACTION: BulkAction = BulkAction {
    verb: "remove",
    done: "removed",
    noun: "schedule",
};
