//! `strata store import`: records out of a file, into a store that has none.

use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use strata_store::Memory;
use tokio::io::{AsyncBufRead, BufReader};

use super::failed;
use super::location::StoreLocation;
use crate::failure::{Failure, Result};
use crate::output::human;
use crate::session::Session;

/// Import records into an empty store
#[derive(Args, Debug)]
#[command(after_help = "\
The whole file is checked before anything is written. An interrupted import
resumes when it is run again. The server needs the store key with which the
records were encrypted (store.key in the data directory).

Examples:
  strata store import backup.jsonl --data-dir /srv/strata
  strata store import backup.jsonl --etcd http://127.0.0.1:2379 --dry-run")]
pub struct Import {
    /// Exported file; - is stdin
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    location: StoreLocation,

    /// Check the file and show how many records it holds, without importing
    #[arg(long)]
    dry_run: bool,
}

impl Import {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let mut reader = self.reader(session).await?;
        if self.dry_run {
            let count = strata_store::import(&Memory::new(), reader.as_mut()).await;
            let count = count.map_err(|why| failed("import", &why))?;
            let line = format!("would import {}\n", human::count(count, "record"));
            return Ok(session.printer.data(line.as_bytes())?);
        }
        let store = self.location.open(session, true).await?;
        let count = strata_store::import(store.as_ref(), reader.as_mut()).await;
        let count = count.map_err(|why| failed("import", &why))?;
        let what = human::count(count, "record");
        session.printer.note(&format!("imported {what}"));
        Ok(())
    }

    async fn reader(&self, session: &mut Session) -> Result<Box<dyn AsyncBufRead + Send + Unpin>> {
        if self.file == Path::new("-") {
            // An import holds all of it in memory anyway.
            let mut bytes = Vec::new();
            let read = session.input.read_to_end(&mut bytes);
            read.map_err(|why| Failure::file("read", &self.file, &why))?;
            return Ok(Box::new(Cursor::new(bytes)));
        }
        let file = tokio::fs::File::open(&self.file).await;
        let file = file.map_err(|why| Failure::file("read", &self.file, &why))?;
        Ok(Box::new(BufReader::new(file)))
    }
}
