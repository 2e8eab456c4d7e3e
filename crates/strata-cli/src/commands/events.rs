//! `strata events`: what happened to instances, workloads, nodes and
//! projects. The server remembers the latest of it.

use clap::Args;
use strata_api::rest::Event;
use strata_client::rest::{Change, Query};

use crate::commands::scope::Scope;
use crate::failure::{Result, unable};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;
use crate::view::event_line;

/// What happened to instances, workloads, nodes and projects
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata events
  strata events -f --kind instance
  strata events -f -o json | jq -r .message")]
pub struct Events {
    /// Only about what has this name
    name: Option<String>,

    /// Go on, and print what happens
    #[arg(short, long)]
    follow: bool,

    /// Only about instances, workloads, nodes or projects
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
        let query = Query::new().project(self.scope.said());
        let query = query.maybe("kind", self.kind.as_deref());
        let failed = || unable("read the events");
        if !self.follow {
            let events: Vec<Event> = rest.list(&query).await.map_err(failed())?;
            for event in &events {
                self.print(session, event)?;
            }
            return Ok(());
        }
        let mut last = 0;
        loop {
            let mut changes = rest.watch::<Event>(&query).await.map_err(failed())?;
            loop {
                let next = session.printer.unless_gone(changes.next()).await?;
                match next.map_err(failed())? {
                    Some(Change::Put(event)) if event.number > last => {
                        last = event.number;
                        self.print(session, &event)?;
                    }
                    Some(Change::Resync) => {
                        session.printer.warn("some events were left out here");
                    }
                    Some(_) => {}
                    // It was long enough for the server: go on where we were.
                    None => break,
                }
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
