//! `strata backup repair`: reads all of the repository, and stores again what
//! is damaged.

use clap::Args;
use strata_api::rest::{Backup, NewBackup};

use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Repair damaged data in the repository
#[derive(Args, Debug)]
#[command(after_help = "\
The whole repository is read. Damaged data is discarded, intact data is kept,
and a new backup uploads the rest again where it still exists. This repairs
older backups too. Ctrl-C detaches; the operation continues on the server.

Examples:
  strata backup repair
  strata backup verify 3f9a41c7 --percent 100")]
pub struct Repair {
    #[command(flatten)]
    wait: WaitArgs,
}

impl Repair {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let asked = NewBackup {
            repair: true,
            ..NewBackup::default()
        };
        let begun = rest.begin::<Backup>("", "", &asked).await;
        let begun = begun.map_err(unable("repair the repository"))?;
        let told = ("repairing the repository", "repaired the repository");
        self.wait.one(session, &rest, &begun, told).await
    }
}
