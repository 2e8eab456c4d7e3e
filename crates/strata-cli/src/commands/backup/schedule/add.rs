//! `strata backup schedule add`: has the server make backups by itself.

use clap::Args;
use strata_api::rest::BackupSchedule;

use crate::commands::backup::keep::KeepArgs;
use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs, human};
use crate::session::Session;
use crate::values::label_name;
use crate::view::time_ms;

/// Create or replace a backup schedule
#[derive(Args, Debug)]
#[command(after_help = "\
WHEN is a cron expression in UTC: minute, hour, day, month, day of the week.
After each backup, backups that no --keep rule keeps are pruned; without
rules, all are kept.

Examples:
  strata backup schedule add nightly --when '30 2 * * *' --keep-daily 7
  strata backup schedule add hourly --when '0 * * * *' --keep-last 24")]
pub struct Add {
    /// Name
    #[arg(value_parser = label_name)]
    name: String,

    /// Cron expression in UTC
    #[arg(long, value_parser = five_fields)]
    when: String,

    #[command(flatten)]
    keep: KeepArgs,

    /// Create the schedule suspended
    #[arg(long)]
    paused: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// What the fields mean is the server's to read; a shell that was not told to
/// leave the stars alone is caught here.
fn five_fields(text: &str) -> std::result::Result<String, String> {
    match text.split_whitespace().count() {
        5 => Ok(text.to_owned()),
        n => Err(format!(
            "has {n} fields, not 5; write it as '30 2 * * *', in quotes"
        )),
    }
}

impl Add {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let name = self.name.clone();
        if self.dry_run {
            let line = format!("would add {name}, due at {}\n", self.when);
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let rest = session.rest().await?;
        let asked = BackupSchedule {
            name: self.name,
            when: self.when,
            keep: self.keep.given().unwrap_or_default(),
            paused: self.paused,
            last_at_ms: None,
            next_at_ms: None,
        };
        let made = rest.create::<BackupSchedule>(&asked).await;
        let made = made.map_err(unable(format!("add the schedule {name}")))?;
        let due = made.next_at_ms.and_then(time_ms);
        let due = due.map_or(String::new(), |next| {
            let until = next.as_second() - session.now().as_second();
            format!("; the next is due in {}", human::seconds(until.max(0)))
        });
        session.printer.note(&format!("added {name}{due}"));
        match self.output.requested() {
            Some(format) => output::one(session, format, &made),
            None => Ok(()),
        }
    }
}
