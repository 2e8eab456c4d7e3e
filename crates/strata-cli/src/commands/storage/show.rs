//! `strata storage show`: the pool, and a row for each of its devices.

use clap::Args;
use jiff::Timestamp;
use strata_api::rest::Pool;

use super::current;
use crate::failure::Result;
use crate::output::{self, Details, Format, OutputArgs, human};
use crate::printer::Printer;
use crate::session::Session;
use crate::view::{pool_style, text, time_ms};

/// Show the pool: health, usage and devices
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata storage show
  strata storage show -o json | jq .freeBytes")]
pub struct Show {
    #[command(flatten)]
    output: OutputArgs,
}

impl Show {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let pool = current(&rest).await?;
        let format = self.output.format();
        match format {
            Format::Json | Format::Yaml => output::document(session, format, &pool),
            Format::Name => {
                let name = format!("pool/{}\n", pool.id);
                Ok(session.printer.data(name.as_bytes())?)
            }
            Format::Table | Format::Wide => {
                let text = describe(&pool, session.now(), &session.printer);
                session.printer.data(text.as_bytes())?;
                if pool.devices.is_empty() {
                    return Ok(());
                }
                session.printer.data(b"\n")?;
                output::rows(session, format, &pool.devices, "")
            }
        }
    }
}

fn describe(pool: &Pool, now: Timestamp, printer: &Printer) -> String {
    let mut details = Details::new(9);
    details.row("Id", &pool.id);
    let state = pool.state.as_str().to_ascii_lowercase();
    let why = text(pool.message.clone());
    details.state(
        &state,
        why.as_deref(),
        pool_style(pool.state),
        printer.color,
    );
    details.row("Profile", pool.profile.as_str());
    let (used, free) = (human::bytes(pool.used_bytes), human::bytes(pool.free_bytes));
    let all = human::bytes(pool.bytes);
    details.row("Used", &format!("{used} of {all}, {free} free"));
    details.row("Volumes", &pool.volumes.to_string());
    details.row("Path", &pool.path);
    if let Some(scrub) = &pool.scrub {
        let at = time_ms(scrub.ended_at_ms);
        let found = match (scrub.corrected, scrub.uncorrectable) {
            (0, 0) => "no errors".to_owned(),
            (mended, lost) => format!("{mended} repaired, {lost} not repairable"),
        };
        let read = human::bytes(scrub.bytes);
        let ago = human::age(at, now);
        details.row("Scrub", &format!("{ago} ago, read {read}, {found}"));
    }
    details.finish()
}
