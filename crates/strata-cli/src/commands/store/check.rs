//! `strata store check`: reads every page and every record of a store.

use clap::Args;
use strata_store::{Embedded, OpenError};

use crate::failure::{Exit, Failure, Result};
use crate::output::human;
use crate::session::Session;

/// Read every page and every record of the store in the data directory
#[derive(Args, Debug)]
#[command(after_help = "\
The server must not run on the data directory meanwhile. Pages that can be
repaired are. A server keeps exports of its records in DIR/store/kept.

Examples:
  strata store check --data-dir /srv/strata")]
pub struct Check {}

impl Check {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let discovery = &session.discovery;
        let data_dir = discovery.data_dir.as_ref();
        let folder = data_dir.unwrap_or(&discovery.places.data_dir).join("store");
        if !folder.exists() {
            let what = format!("there is no store in {}", folder.display());
            let hint = "--data-dir DIR says which data directory is meant";
            return Err(Failure::new(Exit::Refused, what).hint(hint));
        }
        let checked = tokio::task::spawn_blocking(move || Embedded::check(&folder)).await;
        let checked = checked.map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot check the store").because(why.to_string())
        })?;
        let count = checked.map_err(|why| {
            let exit = match why {
                OpenError::InUse { .. } | OpenError::Newer { .. } => Exit::Refused,
                _ => Exit::Unexpected,
            };
            Failure::new(exit, "the store is not whole").because(why.to_string())
        })?;
        let what = human::count(count, "record");
        session.printer.note(&format!("{what}, all of them whole"));
        Ok(())
    }
}
