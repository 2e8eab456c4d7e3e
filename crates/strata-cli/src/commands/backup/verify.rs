//! `strata backup verify`: looks whether a backup can be restored, by
//! restoring some of it.

use clap::Args;
use strata_api::rest::{Backup, VerifyRequest};

use super::One;
use crate::commands::begun::Staying;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::view::short_id;

/// Look whether a backup can be restored
#[derive(Args, Debug)]
#[command(after_help = "\
A part of it is restored aside and compared; 5 percent unless told.
Ctrl-C leaves it to the server.

Examples:
  strata backup verify latest
  strata backup verify 3f9a41c7 --percent 100")]
pub struct Verify {
    #[command(flatten)]
    one: One,

    /// How much of it, from 1 to 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    percent: Option<u8>,

    #[command(flatten)]
    staying: Staying,
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
        self.staying.one(session, &rest, &begun, told).await
    }
}
