//! `strata pod events`: what happened to pods. The stream gives what is
//! remembered and goes on for ever, without a mark between the two; a moment
//! of silence is the mark.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use strata_api::strata::v1::{PodEvent, WatchPodsRequest};

use crate::complete;
use crate::failure::{Result, cannot};
use crate::output::{self, Format, OutputArgs};
use crate::session::Session;
use crate::values::label_name;
use crate::view::{state_tone, state_word, time_ms};

/// The history is in memory at the other end: it comes without pauses.
const SILENCE: Duration = Duration::from_millis(300);

/// What happened to pods
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  strata pod events
  strata pod events web -f
  strata pod events -f -o json | jq -r .message")]
pub struct Events {
    /// Only this pod
    #[arg(value_parser = label_name, add = complete::pods())]
    name: Option<String>,

    /// Go on, and print what happens
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Something that happened.
#[derive(Serialize)]
struct EventView {
    at: Option<Timestamp>,
    pod: String,
    pod_id: String,
    state: &'static str,
    message: String,
}

impl Events {
    pub(crate) async fn run(self, session: &mut Session) -> Result {
        let node = session.node().await?;
        let failed = || cannot(&node, "watch the pods");
        let request = WatchPodsRequest {
            name: self.name.clone().unwrap_or_default(),
            history: true,
        };
        let answer = node.pods().watch(request).await;
        let mut events = answer.map_err(failed())?.into_inner();
        loop {
            let next = async {
                match self.follow {
                    true => Some(events.message().await),
                    false => tokio::time::timeout(SILENCE, events.message()).await.ok(),
                }
            };
            let Some(event) = session.printer.unless_gone(next).await? else {
                return Ok(());
            };
            match event.map_err(failed())? {
                Some(event) => print(session, self.output.format(), event)?,
                None => return Ok(()),
            }
        }
    }
}

fn print(session: &mut Session, format: Format, event: PodEvent) -> Result {
    if event.missed > 0 {
        let missed = format!("{} events were left out here", event.missed);
        session.printer.warn(&missed);
    }
    if event.pod.is_empty() {
        return Ok(());
    }
    let event = EventView {
        at: time_ms(event.at_ms),
        state: state_word(event.state()),
        pod: event.pod,
        pod_id: event.pod_id,
        message: event.message,
    };
    let line = match format {
        Format::Json | Format::Yaml => return output::line(session, format, &event),
        Format::Name => format!("pod/{}\n", event.pod),
        Format::Table | Format::Wide => {
            let at = event.at.map_or("-".to_owned(), |at| format!("{at:.3}"));
            let width = 11usize;
            let state = format!("{:<width$}", event.state);
            let state = state_tone(event.state).paint(&state, session.printer.color);
            let said: String = event
                .message
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            format!("{at}  {:<16}  {state} {said}\n", event.pod)
        }
    };
    Ok(session.printer.data(line.as_bytes())?)
}
