//! `strata backup create`: saves everything as it is at one moment.

use clap::Args;
use strata_api::rest::{Backup, NewBackup};

use super::rate::Rate;
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;

/// Create a backup of the storage pool and the control-plane state
#[derive(Args, Debug)]
#[command(after_help = "\
The snapshot of all volumes is atomic. Only new data is uploaded, and a part
is restored and compared afterwards. Ctrl-C detaches; the operation continues
on the server.

Examples:
  strata backup create
  strata backup create --limit 10MB/s --detach")]
pub struct Create {
    /// Upload limit per second
    #[arg(long, value_name = "RATE")]
    limit: Option<Rate>,

    /// Skip verification after the backup
    #[arg(long)]
    no_verify: bool,

    #[command(flatten)]
    wait: WaitArgs,
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
        let begun = begun.map_err(unable("create a backup"))?;
        let told = (
            "creating a backup",
            "created a backup; see `strata backup show latest`",
        );
        self.wait.one(session, &rest, &begun, told).await
    }
}
