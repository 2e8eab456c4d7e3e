//! `strata storage volume resize`: changes how much a volume may hold.

use clap::Args;
use strata_api::rest::{PoolVolume, PoolVolumePatch};
use strata_client::rest::Query;

use super::{PoolVolumeArg, current};
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs, human};
use crate::session::Session;
use crate::values::Bytes;

/// Resize a volume
#[derive(Args, Debug)]
#[command(after_help = "\
A disk can only grow. With none, a volume of files may fill the pool.

Examples:
  strata storage volume resize data 20GB
  strata storage volume resize data none")]
pub struct Resize {
    #[command(flatten)]
    one: PoolVolumeArg,

    /// Quota, or none
    #[arg(value_parser = limit)]
    size: Bytes,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// On the wire, nothing is no limit; a person who writes 0 errs.
fn limit(text: &str) -> std::result::Result<Bytes, String> {
    match text {
        "none" => Ok(Bytes(0)),
        text => match text.parse()? {
            Bytes(0) => Err("0 is not a size; write none for no quota".to_owned()),
            size => Ok(size),
        },
    }
}

fn word(bytes: Option<u64>) -> String {
    match bytes {
        None | Some(0) => "none".to_owned(),
        Some(bytes) => human::bytes(bytes),
    }
}

impl Resize {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let (name, Bytes(size)) = (&self.one.name, self.size);
        if self.dry_run {
            let now = current(&rest, name, "read").await?;
            let (before, after) = (word(now.quota_bytes), word(Some(size)));
            let line = format!("would resize {name}: {before} -> {after}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let patch = PoolVolumePatch {
            quota_bytes: Some(size),
        };
        let changed = rest
            .update::<PoolVolume>(name, &Query::new(), &patch, None)
            .await;
        let changed = changed.map_err(unable(format!("resize the volume {name}")))?;
        session.printer.note(&format!("resized {name}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &changed),
            None => Ok(()),
        }
    }
}
