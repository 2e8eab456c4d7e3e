//! `strata store rotate-key`: another store key for a store that nobody uses.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use strata_store::{UnsealError, rotate_store_key};

use super::location::StoreLocation;
use crate::failure::{Exit, Failure, Result};
use crate::session::Session;

/// Replace the encryption key of the records
#[derive(Args, Debug)]
#[command(after_help = "\
A new key replaces the old one in its file; the old one no longer opens the
store. Records are not rewritten. The server must not run on the data
directory meanwhile. With several servers on one etcd, copy the new file to
each.

Examples:
  strata store rotate-key --data-dir /srv/strata
  strata store rotate-key --etcd http://127.0.0.1:2379 --key-file store.key")]
pub struct RotateKey {
    /// File with the store key [default: store.key in the data directory]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,

    #[command(flatten)]
    location: StoreLocation,
}

impl RotateKey {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let store = self.location.open(session, false).await?;
        let discovery = &session.discovery;
        let data_dir = discovery.data_dir.as_ref();
        let data_dir = data_dir.unwrap_or(&discovery.places.data_dir);
        let key_file = self.key_file.unwrap_or_else(|| data_dir.join("store.key"));
        let rotated = rotate_store_key(store.as_ref(), &key_file).await;
        let (old, new) = rotated.map_err(|error| {
            let exit = match &error {
                UnsealError::Store(_) => Exit::Server,
                UnsealError::KeyFile(_) => Exit::Unexpected,
                _ => Exit::Refused,
            };
            Failure::new(exit, "cannot replace the store key").because(error.to_string())
        })?;
        let note = format!(
            "store key {old} replaced by {new} in {}",
            key_file.display()
        );
        session.printer.note(&note);
        Ok(())
    }
}
