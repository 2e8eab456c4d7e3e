//! `strata storage device add`: adds a spare. `strata storage expand` takes it
//! into the pool.

use clap::Args;
use strata_api::rest::{NewDevice, PoolDevice};

use crate::failure::{Result, unable};
use crate::output::{self, OutputArgs, human};
use crate::session::Session;
use crate::values::{Bytes, absolute};

/// Add a spare, a block device or a file
#[derive(Args, Debug)]
#[command(after_help = "\
Without a path a file is made under the data folder of the server. A device
that has something on it is refused without --overwrite, which erases it.

Examples:
  strata storage device add /dev/sdb
  strata storage device add --bytes 10GB")]
pub struct Add {
    /// A block device of the server's machine
    #[arg(value_parser = absolute)]
    path: Option<String>,

    /// Make a file of this size
    #[arg(
        long,
        value_name = "SIZE",
        conflicts_with = "path",
        visible_alias = "size"
    )]
    bytes: Option<Bytes>,

    /// Take a device that has something on it, and erase that
    #[arg(long, requires = "path")]
    overwrite: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Only say what would be done
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
                ", over all that is on it"
            } else {
                ""
            };
            let line = format!("would add {what} as a spare{over}\n");
            return Ok(session.printer.data(line.as_bytes())?);
        }
        if self.overwrite {
            session.confirm(&format!("Erase all that is on {what}?"), self.yes)?;
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
            "added {name}, a spare of {size}; `strata storage expand` takes it into the pool"
        ));
        match self.output.asked() {
            Some(format) => output::one(session, format, &added),
            None => Ok(()),
        }
    }
}
