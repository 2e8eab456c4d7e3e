//! `strata backup show`: one backup, all that is known of it.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::Backup;

use super::BackupArg;
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs, human};
use crate::session::Session;
use crate::view::time_ms;

/// Show a backup
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata backup show latest
  strata backup show 3f9a41c7 -o json | jq .volumes")]
pub struct Show {
    #[command(flatten)]
    one: BackupArg,

    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let backup = self.one.find(&rest).await?;
        match self.output.format() {
            Format::Table | Format::Wide => {
                let text = describe(&backup, session.now());
                Ok(session.printer.data(text.as_bytes())?)
            }
            format => output::one(session, format, &backup),
        }
    }
}

fn describe(backup: &Backup, now: Timestamp) -> String {
    let mut details = Details::new(11);
    details.row("Id", &backup.id);
    details.moment("Taken", time_ms(backup.taken_at_ms), now);
    let took = i64::try_from(backup.took_ms / 1000).unwrap_or(i64::MAX);
    details.row("Took", &human::seconds(took));
    details.row("Host", &backup.host);
    details.row("Operation", &backup.operation);
    let files = usize::try_from(backup.files).unwrap_or(usize::MAX);
    let files = human::count(files, "file");
    details.row("Holds", &format!("{files}, {}", human::bytes(backup.bytes)));
    let (new, stored) = (backup.new_bytes, backup.stored_bytes);
    let (new, stored) = (human::bytes(new), human::bytes(stored));
    details.row("Added", &format!("{new}, stored as {stored}"));
    let state = match backup.has_state {
        true => "with control-plane state",
        false => "without control-plane state",
    };
    details.row("State", state);
    for volume in &backup.volumes {
        details.row("Volume", volume);
    }
    details.finish()
}
