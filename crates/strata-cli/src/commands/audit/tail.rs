//! `strata audit tail`: the latest decisions, and those that follow.

use std::time::Duration;

use clap::Args;
use strata_audit::{Entry, Follower};
use strata_client::rest::Change;

use super::{Selection, directory, print, unreadable};
use crate::failure::{Result, unable};
use crate::output::OutputArgs;
use crate::session::Session;

/// Poll interval of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const PAGE_SIZE: usize = 1000;

/// Show the latest entries and follow new ones
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata audit tail
  strata audit tail --refused
  strata audit tail --remote
  strata audit tail -o json | jq -r '[.time, .principal, .call] | @tsv'")]
pub struct Tail {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    output: OutputArgs,
}

impl Tail {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        match self.selection.remote {
            true => self.follow_server(session).await,
            false => self.follow_files(session).await,
        }
    }

    async fn follow_files(self, session: &mut Session) -> Result {
        let directory = directory(session);
        let page = self.selection.latest(&directory)?;
        let filter = self.selection.filter();
        for entry in &page.entries {
            print(session, self.output.format(), entry)?;
        }
        let mut follower = Follower::after(&directory, page.last);
        loop {
            let pause = tokio::time::sleep(POLL_INTERVAL);
            session.printer.unless_gone(pause).await?;
            let entries = follower.next(PAGE_SIZE).map_err(unreadable(&directory))?;
            for entry in entries.iter().filter(|entry| filter.accept(entry)) {
                print(session, self.output.format(), entry)?;
            }
        }
    }

    /// One request, and so one audit entry, however long it follows; a new
    /// request resumes after the server ends the stream.
    async fn follow_server(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let failed = || unable("follow the audit log");
        let mut query = self.selection.query();
        loop {
            let mut changes = rest.watch::<Entry>(&query).await.map_err(failed())?;
            loop {
                let next = session.printer.unless_gone(changes.next()).await?;
                match next.map_err(failed())? {
                    Some(Change::Put(entry)) => {
                        print(session, self.output.format(), &entry)?;
                        query = self.selection.query_after(entry.number);
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            let pause = tokio::time::sleep(POLL_INTERVAL);
            session.printer.unless_gone(pause).await?;
        }
    }
}
