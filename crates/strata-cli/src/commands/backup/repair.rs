//! `strata backup repair`: reads all of the repository, and stores again what
//! is damaged.

use clap::Args;
use strata_api::rest::{Backup, NewBackup};

use crate::commands::begun::Staying;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Store again what is damaged in the repository
#[derive(Args, Debug)]
#[command(after_help = "\
All of the repository is read. What is damaged is not used any more, what is
good of it is kept, and a new backup stores the rest again where the data still
exists. That heals older backups too. Ctrl-C leaves it to the server.

Examples:
  strata backup repair
  strata backup verify 3f9a41c7 --percent 100")]
pub struct Repair {
    #[command(flatten)]
    staying: Staying,
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
        self.staying.one(session, &rest, &begun, told).await
    }
}
