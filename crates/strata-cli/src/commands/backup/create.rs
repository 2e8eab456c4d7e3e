//! `strata backup create`: saves everything as it is at one moment.

use clap::Args;
use strata_api::rest::{Backup, NewBackup};

use super::rate::Rate;
use crate::commands::begun::Staying;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Save the pool and Strata's own state now
#[derive(Args, Debug)]
#[command(after_help = "\
All volumes are of the same moment. Only what is new goes to the repository,
and a part is restored and compared afterwards. Ctrl-C leaves it to the server.

Examples:
  strata backup create
  strata backup create --limit 10MB/s --detach")]
pub struct Create {
    /// Send at most so much a second
    #[arg(long, value_name = "RATE")]
    limit: Option<Rate>,

    /// Do not look afterwards whether it can be restored
    #[arg(long)]
    no_verify: bool,

    #[command(flatten)]
    staying: Staying,
}

impl Create {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let asked = NewBackup {
            bytes_per_second: self.limit.map(|Rate(n)| n),
            skip_verify: self.no_verify,
            repair: false,
        };
        let begun = rest.begin::<Backup>("", "", &asked).await;
        let begun = begun.map_err(unable("make a backup"))?;
        let told = (
            "making a backup",
            "made a backup; `strata backup show latest` tells of it",
        );
        self.staying.one(session, &rest, &begun, told).await
    }
}
