//! Events of pods or virtual machines. The stream sends the history and then
//! live events without a marker between them; a pause marks the end of the
//! history.

use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use jiff::Timestamp;
use serde::Serialize;
use strata_client::NodeClient;
use tonic::Status;

use crate::failure::{Result, cannot};
use crate::output::{self, Format};
use crate::session::Session;
use crate::view::state_style;

/// Pause after which the history is complete: it is in memory on the node and
/// comes without pauses.
const HISTORY_IDLE_TIMEOUT: Duration = Duration::from_millis(300);

/// An event of a pod or virtual machine.
pub(super) struct NodeEvent {
    pub(super) at: Option<Timestamp>,
    pub(super) name: String,
    pub(super) id: String,
    pub(super) state: &'static str,
    pub(super) message: String,
    /// Number of events that were dropped before this one.
    pub(super) missed: u64,
}

/// The event as JSON.
#[derive(Serialize)]
struct EventView {
    at: Option<Timestamp>,
    #[serde(flatten)]
    whom: EventTarget,
    state: &'static str,
    message: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EventTarget {
    Pod { pod: String, pod_id: String },
    Vm { vm: String, vm_id: String },
}

/// Prints the history, and live events with `follow`. `noun` is `pod` or `vm`.
pub(super) async fn print_all<S>(
    session: &mut Session,
    node: &NodeClient,
    (noun, format): (&'static str, Format),
    follow: bool,
    mut events: S,
) -> Result
where
    S: Stream<Item = std::result::Result<NodeEvent, Status>> + Unpin,
{
    loop {
        let next = async {
            match follow {
                true => Some(events.next().await),
                false => tokio::time::timeout(HISTORY_IDLE_TIMEOUT, events.next())
                    .await
                    .ok(),
            }
        };
        match session.printer.unless_gone(next).await?.flatten() {
            Some(event) => {
                let event = event.map_err(cannot(node, format!("watch the {noun}s")))?;
                print(session, noun, format, event)?;
            }
            None => return Ok(()),
        }
    }
}

fn print(session: &mut Session, noun: &str, format: Format, event: NodeEvent) -> Result {
    if event.missed > 0 {
        let missed = format!("{} events were dropped here", event.missed);
        session.printer.warn(&missed);
    }
    if event.name.is_empty() {
        return Ok(());
    }
    let line = match format {
        Format::Json | Format::Yaml => {
            let view = EventView {
                at: event.at,
                whom: match noun {
                    "vm" => EventTarget::Vm {
                        vm: event.name,
                        vm_id: event.id,
                    },
                    _ => EventTarget::Pod {
                        pod: event.name,
                        pod_id: event.id,
                    },
                },
                state: event.state,
                message: event.message,
            };
            return output::line(session, format, &view);
        }
        Format::Name => format!("{noun}/{}\n", event.name),
        Format::Table | Format::Wide => {
            let at = event.at.map_or("-".to_owned(), |at| format!("{at:.3}"));
            let width = 11usize;
            let state = format!("{:<width$}", event.state);
            let state = state_style(event.state).paint(&state, session.printer.color);
            let said: String = event
                .message
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            format!("{at}  {:<16}  {state} {said}\n", event.name)
        }
    };
    Ok(session.printer.data(line.as_bytes())?)
}
