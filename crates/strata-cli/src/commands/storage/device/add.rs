//! `strata storage device add`: adds a spare. `strata storage expand` takes it
//! into the pool.

use clap::Args;
use strata_api::rest::{NewDevice, PoolDevice};

use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs, human};
use crate::session::Session;
use crate::values::{Bytes, absolute};

/// Add a spare: a block device or a file
#[derive(Args, Debug)]
#[command(after_help = "\
Without a path a file is created in the data directory of the server. A device
that holds data is rejected without --overwrite, which erases it.

Examples:
  strata storage device add /dev/sdb
  strata storage device add --bytes 10GB")]
pub struct Add {
    /// Block device of the server's host
    #[arg(value_parser = absolute)]
    path: Option<String>,

    /// Create a file of this size
    #[arg(
        long,
        value_name = "SIZE",
        conflicts_with = "path",
        visible_alias = "size"
    )]
    bytes: Option<Bytes>,

    /// Use a device that holds data, and erase it
    #[arg(long, requires = "path")]
    overwrite: bool,

    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    output: OutputArgs,
}

impl Add {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let what = match (&self.path, self.bytes) {
            (Some(path), _) => path.clone(),
            (None, Some(Bytes(n))) => format!("a file of {}", human::bytes(n)),
            (None, None) => "a file".to_owned(),
        };
        if self.dry_run {
            let over = if self.overwrite {
                ", erasing its data"
            } else {
                ""
            };
            let line = format!("would add {what} as a spare{over}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        if self.overwrite {
            session.confirm(&format!("Erase all data on {what}?"), self.yes)?;
        }
        let rest = session.rest().await?;
        let asked = NewDevice {
            path: self.path.unwrap_or_default(),
            bytes: self.bytes.map(|Bytes(n)| n),
            overwrite: self.overwrite,
        };
        let added = rest.create::<PoolDevice>(&asked).await;
        let added = added.map_err(unable(format!("add {what}")))?;
        let (name, size) = (&added.name, human::bytes(added.bytes));
        session.printer.note(&format!(
            "added {name}, a spare of {size}; `strata storage expand` adds it to the pool"
        ));
        match self.output.requested() {
            Some(format) => output::one(session, format, &added),
            None => Ok(()),
        }
    }
}
