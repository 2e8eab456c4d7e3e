//! Events on disk, so that a restart of the server does not lose what happened
//! before it: the same bounded history as in memory, in one file of JSON lines.
//!
//! Events are not records: losing the last second of them with the host is fine,
//! and nothing waits for them. So they are written in batches by one task, never
//! synced, and not kept in the store, where each would cost a commit, and in etcd
//! a round of consensus. The file is this server's own: so are the numbers of
//! events. An event that happened again is written again with its count; of two
//! lines with one number the later counts. A line that cannot be read (cut off by
//! the end of the host, or of a later release) is skipped.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_types::Label;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::events::{Event, Events, LoggedEvent, REMEMBERED};

/// How often new events are written.
const INTERVAL: Duration = Duration::from_secs(1);
/// The file is written over when it has so many lines.
const MOST_LINES: usize = 3 * REMEMBERED;
/// A longer line is none of ours.
const LONGEST_LINE: usize = 1 << 20;
const KINDS: [&str; 7] = [
    "instance", "workload", "node", "project", "machine", "cluster", "server",
];

/// An event as a line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    number: u64,
    at_ms: i64,
    kind: String,
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<Label>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limited_message: Option<String>,
    count: u64,
    last_at_ms: i64,
}

impl Line {
    fn of(event: &Event) -> Self {
        Self {
            number: event.number,
            at_ms: event.at_ms,
            kind: event.kind.to_owned(),
            name: event.name.clone(),
            id: event.id.clone(),
            project: event.project.clone(),
            message: event.message.clone(),
            limited_message: event.limited_message.clone(),
            count: event.count,
            last_at_ms: event.last_at_ms,
        }
    }

    fn event(self) -> Option<Event> {
        Some(Event {
            number: self.number,
            at_ms: self.at_ms,
            kind: KINDS.into_iter().find(|kind| *kind == self.kind)?,
            name: self.name,
            id: self.id,
            project: self.project,
            message: self.message,
            limited_message: self.limited_message,
            count: self.count,
            last_at_ms: self.last_at_ms,
        })
    }
}

/// The events of earlier runs of this server, to go on after; none where they
/// cannot be read.
pub(super) fn open(path: Option<&Path>) -> Events {
    let earlier = path.map(read).unwrap_or_else(|| Ok(Vec::new()));
    let earlier = earlier.unwrap_or_else(|error| {
        tracing::warn!(?path, %error, "earlier events not read");
        Vec::new()
    });
    Events::after_earlier(earlier, path.is_some())
}

/// The events of a file, the oldest first; none where there is no file.
pub(super) fn read(path: &Path) -> io::Result<Vec<Event>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let mut found = BTreeMap::new();
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        let line = Some(line).filter(|line| line.len() <= LONGEST_LINE);
        let line = line.and_then(|line| serde_json::from_slice::<Line>(&line).ok());
        let Some(event) = line.and_then(Line::event) else {
            continue;
        };
        found.insert(event.number, event);
        if found.len() > REMEMBERED {
            found.pop_first();
        }
    }
    Ok(found.into_values().collect())
}

/// The file, and how many lines it has.
pub(super) struct EventLog {
    path: PathBuf,
    lines: usize,
}

impl EventLog {
    /// At the start of a server. The first write is of everything that is
    /// remembered.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            lines: MOST_LINES,
        }
    }

    /// Writes what changed; all of it when the file would be too long.
    fn write(
        &mut self,
        changed: &[Arc<LoggedEvent>],
        all: impl FnOnce() -> Vec<Arc<LoggedEvent>>,
    ) -> io::Result<()> {
        if self.lines.saturating_add(changed.len()) <= MOST_LINES {
            let mut file = options().append(true).create(true).open(&self.path)?;
            file.write_all(&text(changed)?)?;
            self.lines += changed.len();
            return Ok(());
        }
        let all = all();
        let part = self.path.with_extension("part");
        let mut file = options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&part)?;
        file.write_all(&text(&all)?)?;
        std::fs::rename(&part, &self.path)?;
        self.lines = all.len();
        Ok(())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn text(events: &[Arc<LoggedEvent>]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for one in events {
        serde_json::to_writer(&mut text, &Line::of(&one.event))?;
        text.push(b'\n');
    }
    Ok(text)
}

impl Core {
    /// Writes events to their file until `shutdown`, and then once more.
    pub(super) async fn keep_events(self, mut log: EventLog, shutdown: CancellationToken) {
        loop {
            let ends = tokio::select! {
                () = shutdown.cancelled() => true,
                () = tokio::time::sleep(INTERVAL) => false,
            };
            let core = self.clone();
            let written = tokio::task::spawn_blocking(move || {
                let changed = core.events().take_changed();
                let written = match changed.is_empty() {
                    true => Ok(()),
                    false => log.write(&changed, || core.events().all()),
                };
                (log, written)
            });
            let (back, written) = match written.await {
                Ok(done) => done,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The runtime ends.
                Err(_) => return,
            };
            log = back;
            if let Err(error) = written {
                // What was missed is written with everything else.
                log.lines = MOST_LINES;
                tracing::warn!(path = %log.path.display(), %error, "events not written");
            }
            if ends {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64, count: u64) -> Arc<LoggedEvent> {
        Arc::new(LoggedEvent::new(Event {
            number,
            at_ms: 1,
            kind: "instance",
            name: format!("web-{number}"),
            id: "id".into(),
            project: None,
            message: "RUNNING".into(),
            limited_message: Some("less".into()),
            count,
            last_at_ms: 2,
        }))
    }

    #[test]
    fn events_are_read_back_with_their_last_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        assert!(read(&path).unwrap().is_empty());
        let mut log = EventLog::new(path.clone());
        let (first, second) = (event(7, 1), event(9, 1));
        log.write(std::slice::from_ref(&first), || vec![first.clone()])
            .unwrap();
        log.write(&[second.clone(), event(7, 5)], Vec::new).unwrap();
        // A line that was cut off.
        let mut file = options().append(true).open(&path).unwrap();
        file.write_all(b"{\"number\":10,\"at").unwrap();
        let expected = [event(7, 5).event.clone(), second.event.clone()];
        assert_eq!(read(&path).unwrap(), expected);
    }

    #[test]
    fn file_stays_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut log = EventLog::new(path.clone());
        let batch: Vec<_> = (0..1000).map(|number| event(number, 1)).collect();
        for _ in 0..50 {
            log.write(&batch, || batch.clone()).unwrap();
        }
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= MOST_LINES, "{lines}");
        assert_eq!(read(&path).unwrap().len(), 1000);
    }
}
