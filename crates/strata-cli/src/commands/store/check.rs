//! `strata store check`: reads every page and every record of a store.

use clap::Args;
use strata_store::{Embedded, OpenError};

use crate::failure::{Exit, Failure, Result};
use crate::output::human;
use crate::session::Session;

/// Check every page and record of the store
#[derive(Args, Debug)]
#[command(after_help = "\
The server must not run on the data directory meanwhile. Pages that can be
repaired are repaired. A server keeps exports of its records in
DIR/store/kept.

Examples:
  strata store check --data-dir /srv/strata")]
pub struct Check {}

impl Check {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let discovery = &session.discovery;
        let data_dir = discovery.data_dir.as_ref();
        let directory = data_dir.unwrap_or(&discovery.places.data_dir).join("store");
        if !directory.exists() {
            let what = format!("there is no store in {}", directory.display());
            let hint = "specify the data directory with --data-dir DIR";
            return Err(Failure::new(Exit::Refused, what).hint(hint));
        }
        let checked = tokio::task::spawn_blocking(move || Embedded::check(&directory)).await;
        let checked = checked.map_err(|why| {
            Failure::new(Exit::Unexpected, "cannot check the store").because(why.to_string())
        })?;
        let count = checked.map_err(|why| {
            let exit = match why {
                OpenError::InUse { .. } | OpenError::Newer { .. } => Exit::Refused,
                _ => Exit::Unexpected,
            };
            Failure::new(exit, "the store is damaged").because(why.to_string())
        })?;
        let what = human::count(count, "record");
        session.printer.note(&format!("{what}, all intact"));
        Ok(())
    }
}
