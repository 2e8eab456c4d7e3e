//! `strata storage volume unsnapshot`: forgets a snapshot.

use clap::Args;
use strata_api::rest::PoolVolume;

use super::PoolVolumeArg;
use crate::failure::{Result, unable};
use crate::session::Session;
use crate::values::label_name;

/// Delete a snapshot of a volume
#[derive(Args, Debug)]
#[command(after_help = "\
Volumes that were created from it are kept.

Examples:
  strata storage volume unsnapshot data monday
  strata storage volume unsnapshot data monday --yes")]
pub struct Unsnapshot {
    #[command(flatten)]
    one: PoolVolumeArg,

    /// Name of the snapshot
    #[arg(value_parser = label_name)]
    snapshot: String,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
}

impl Unsnapshot {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let full = format!("{}@{}", self.one.name, self.snapshot);
        session.confirm(&format!("Remove {full}?"), self.yes)?;
        let rest = session.rest().await?;
        let answer = rest
            .take::<PoolVolume>(&self.one.name, "snapshot", &self.snapshot)
            .await;
        answer.map_err(unable(format!("remove the snapshot {full}")))?;
        session.printer.note(&format!("removed {full}"));
        Ok(())
    }
}
