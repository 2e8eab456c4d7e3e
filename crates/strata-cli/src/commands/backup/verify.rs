//! `strata backup verify`: looks whether a backup can be restored, by
//! restoring some of it.

use clap::Args;
use strata_api::rest::{Backup, VerifyRequest};

use super::BackupArg;
use crate::commands::operation_wait::WaitArgs;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::view::short_id;

/// Verify that a backup can be restored
#[derive(Args, Debug)]
#[command(after_help = "\
A part of it is restored and compared [default: 5 percent]. Ctrl-C detaches;
the operation continues on the server.

Examples:
  strata backup verify latest
  strata backup verify 3f9a41c7 --percent 100")]
pub struct Verify {
    #[command(flatten)]
    one: BackupArg,

    /// Share of the data to verify, in percent, 1 to 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    percent: Option<u8>,

    #[command(flatten)]
    wait: WaitArgs,
}

impl Verify {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let backup = self.one.find(&rest).await?;
        let id = short_id(&backup.id);
        let asked = VerifyRequest {
            percent: self.percent,
        };
        let begun = rest.begin::<Backup>(&backup.id, "verify", &asked).await;
        let begun = begun.map_err(unable(format!("verify the backup {id}")))?;
        let told = (&*format!("verifying {id}"), &*format!("verified {id}"));
        self.wait.one(session, &rest, &begun, told).await
    }
}
