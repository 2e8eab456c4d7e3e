//! `strata events`: events of instances, workloads, nodes and projects. The
//! server keeps the latest.

use std::time::Duration;

use clap::Args;
use strata_api::rest::Event;
use strata_client::Error as ClientError;
use strata_client::rest::{Change, Query, RestClient};

use crate::commands::scope::Scope;
use crate::failure::{Result, unable};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;
use crate::view::event_line;

/// Retries while a server restarts, at [`RETRY_INTERVAL`].
const MAX_RETRIES: u32 = 30;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Show events of instances, workloads, nodes and projects
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata events
  strata events -f --kind instance
  strata events -f -o json | jq -r .message")]
pub struct Events {
    /// Only events of the resource with this name
    name: Option<String>,

    /// Watch for new events
    #[arg(short, long)]
    follow: bool,

    /// Only events of this kind: instance, workload, node or project
    #[arg(long, value_parser = ["instance", "workload", "node", "project"])]
    kind: Option<String>,

    #[command(flatten)]
    scope: Scope,

    #[command(flatten)]
    output: OutputArgs,
}

impl Events {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let rest = session.rest().await?;
        let query = Query::new().project(self.scope.given());
        let query = query.maybe("kind", self.kind.as_deref());
        let failed = || unable("read the events");
        if !self.follow {
            let events: Vec<Event> = rest.list(&query).await.map_err(failed())?;
            for event in &events {
                self.print(session, event)?;
            }
            return Ok(());
        }
        let mut last = None;
        let mut lost = 0;
        loop {
            let told = self.stream(session, &rest, &query, &mut last).await?;
            match told {
                // It was long enough for the server: go on where we were.
                Ok(()) => lost = 0,
                Err(ClientError::Lost { .. } | ClientError::Connect { .. })
                    if last.is_some() && lost < MAX_RETRIES =>
                {
                    lost += 1;
                }
                Err(error) => return Err(failed()(error)),
            }
            let pause = tokio::time::sleep(RETRY_INTERVAL);
            session.printer.unless_gone(pause).await?;
        }
    }

    /// Prints one stream to its end.
    async fn stream(
        &self,
        session: &mut Session,
        rest: &RestClient,
        query: &Query,
        last: &mut Option<Event>,
    ) -> Result<std::result::Result<(), ClientError>> {
        let mut changes = match rest.watch::<Event>(query).await {
            Ok(changes) => changes,
            Err(error) => return Ok(Err(error)),
        };
        // What is remembered comes first; some of it may have been told.
        let mut first = Some(Vec::new());
        loop {
            let next = session.printer.unless_gone(changes.next()).await?;
            let news = match next {
                Err(error) => return Ok(Err(error)),
                Ok(None) => return Ok(Ok(())),
                Ok(Some(Change::Put(event))) => match &mut first {
                    Some(first) => {
                        first.push(event);
                        continue;
                    }
                    None => vec![event],
                },
                Ok(Some(Change::Synced)) => untold(first.take().unwrap_or_default(), last.as_ref()),
                Ok(Some(Change::Resync)) => {
                    session.printer.warn("some events were dropped here");
                    continue;
                }
                Ok(Some(Change::Delete(_))) => continue,
            };
            for event in news {
                self.print(session, &event)?;
                *last = Some(event);
            }
        }
    }

    fn print(&self, session: &mut Session, event: &Event) -> Result {
        if self.name.as_ref().is_some_and(|name| *name != event.name) {
            return Ok(());
        }
        match self.output.format() {
            format @ (Format::Json | Format::Yaml) => output::line(session, format, event),
            Format::Name => {
                let name = format!("{}/{}\n", event.kind, event.name);
                Ok(session.printer.data(name.as_bytes())?)
            }
            Format::Table | Format::Wide => {
                Ok(session.printer.data(event_line(event).as_bytes())?)
            }
        }
    }
}

/// Those that come after the last one that was told. Numbers begin anew when
/// the server does: then that one is not among them, and all are new.
fn untold(mut remembered: Vec<Event>, last: Option<&Event>) -> Vec<Event> {
    let told = last.and_then(|last| {
        let same = |one: &Event| (one.number, &one.at) == (last.number, &last.at);
        remembered.iter().position(same)
    });
    remembered.drain(..told.map_or(0, |told| told + 1));
    remembered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64, at: &str) -> Event {
        Event {
            number,
            at: at.into(),
            ..Default::default()
        }
    }

    #[test]
    fn printed_events_are_skipped_unless_the_server_restarted() {
        let numbers = |remembered: &[Event], last: Option<&Event>| {
            let news = untold(remembered.to_vec(), last);
            news.iter().map(|one| one.number).collect::<Vec<_>>()
        };
        let old = [event(7, "a"), event(8, "b"), event(9, "c")];
        assert_eq!(numbers(&old, None), [7, 8, 9]);
        assert_eq!(numbers(&old, Some(&old[1])), [9]);
        assert!(numbers(&old, Some(&old[2])).is_empty());
        let new = [event(1, "d"), event(2, "e")];
        assert_eq!(numbers(&new, Some(&old[2])), [1, 2]);
        let caught_up = [event(8, "f"), event(9, "g")];
        assert_eq!(numbers(&caught_up, Some(&old[1])), [8, 9]);
    }
}
