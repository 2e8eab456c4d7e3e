//! `strata storage volume snapshot`: remembers a volume as it is now.

use clap::Args;
use strata_api::rest::{NewSnapshot, PoolVolume};

use super::PoolVolumeArg;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs};
use crate::session::Session;
use crate::values::label_name;

/// Create a snapshot of a volume
#[derive(Args, Debug)]
#[command(after_help = "\
A snapshot uses no space until the volume differs. `create --from
VOLUME@SNAPSHOT` creates a volume from it.

Examples:
  strata storage volume snapshot data monday")]
pub struct Snapshot {
    #[command(flatten)]
    one: PoolVolumeArg,

    /// Name of the snapshot
    #[arg(value_parser = label_name)]
    snapshot: String,

    #[command(flatten)]
    output: OutputArgs,
}

impl Snapshot {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (name, snapshot) = (&self.one.name, &self.snapshot);
        let asked = NewSnapshot {
            name: snapshot.clone(),
        };
        let made = rest.add::<PoolVolume>(name, "snapshot", &asked).await;
        let made = made.map_err(unable(format!("snapshot the volume {name}")))?;
        session.printer.note(&format!("created {name}@{snapshot}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &made),
            None => Ok(()),
        }
    }
}
