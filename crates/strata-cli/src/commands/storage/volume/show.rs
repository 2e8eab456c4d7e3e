//! `strata storage volume show`: one volume, all that is known of it.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::PoolVolume;

use super::{PoolVolumeArg, current};
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs, human};
use crate::session::Session;
use crate::view::{kind_word, time_ms};

/// Show a volume
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata storage volume show data
  strata storage volume show data -o json | jq .exclusiveBytes")]
pub struct Show {
    #[command(flatten)]
    one: PoolVolumeArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let volume = current(&rest, &self.one.name, "show").await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&volume, session.now());
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &volume),
        }
    }
}

fn describe(volume: &PoolVolume, now: Timestamp) -> String {
    let mut details = Details::new(10);
    details.row("Name", &volume.name);
    details.row("Kind", kind_word(volume.kind));
    let size = volume.quota_bytes.map(human::bytes);
    details.row("Size", &size.unwrap_or_else(|| "unlimited".to_owned()));
    let (used, own) = (volume.used_bytes, volume.exclusive_bytes);
    let used = format!("{}, {} exclusive", human::bytes(used), human::bytes(own));
    details.row("Used", &used);
    details.row("From", &volume.origin);
    for snapshot in &volume.snapshots {
        let at = time_ms(snapshot.created_at_ms);
        let line = format!("{} ({} ago)", snapshot.name, human::age(at, now));
        details.row("Snapshot", &line);
    }
    details.moment("Created", time_ms(volume.created_at_ms), now);
    details.finish()
}
