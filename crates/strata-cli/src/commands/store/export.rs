//! `strata store export`: all records into a file, whole or not at all.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use strata_store::Store;

use super::failed;
use super::location::StoreLocation;
use crate::failure::{Failure, Result};
use crate::output::human;
use crate::session::Session;

/// Export all records to a file
#[derive(Args, Debug)]
#[command(after_help = "\
The records stay encrypted: to import them elsewhere, copy the store key
(store.key in the data directory) as well. The server must not run on the data
directory meanwhile.

Examples:
  strata store export backup.jsonl --data-dir /srv/strata
  strata store export - --etcd http://127.0.0.1:2379 | zstd > backup.zst")]
pub struct Export {
    /// Output file; - is stdout
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    location: StoreLocation,
}

impl Export {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let store = self.location.open(session, false).await?;
        let count = match self.file.as_path() {
            file if file == Path::new("-") => {
                let mut bytes = Vec::new();
                let count = strata_store::export(store.as_ref(), &mut bytes).await;
                let count = count.map_err(|why| failed("export", &why))?;
                session.printer.data(&bytes)?;
                count
            }
            file => write(store.as_ref(), file).await?,
        };
        let what = human::count(count, "record");
        session.printer.note(&format!("exported {what}"));
        Ok(())
    }
}

/// Written beside it first: whoever finds the file finds all of it.
async fn write(store: &dyn Store, file: &Path) -> Result<usize> {
    let cannot = |why: std::io::Error| Failure::file("write", file, &why);
    let mut part = OsString::from(file);
    part.push(".part");
    let part = PathBuf::from(part);
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)
        .map_err(cannot)?;
    let mut writer = tokio::io::BufWriter::new(tokio::fs::File::from_std(opened));
    let written = strata_store::export(store, &mut writer).await;
    let written = match written.map_err(|why| failed("export", &why)) {
        Ok(count) => {
            let synced = writer.get_ref().sync_all().await;
            synced
                .and_then(|()| std::fs::rename(&part, file))
                .map_err(cannot)
                .map(|()| count)
        }
        Err(failure) => Err(failure),
    };
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}
