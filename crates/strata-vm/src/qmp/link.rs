//! The task that owns a connection: sends requests of callers, gives each its
//! answer by the id, passes events to listeners.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::timeout;

use super::lines::Lines;
use super::message::{Incoming, Outgoing};
use super::{Event, QmpError};

/// How long QEMU may take to read a command.
const WRITE: Duration = Duration::from_secs(5);

/// A command of a caller.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) command: &'static str,
    pub(super) arguments: Option<Value>,
    pub(super) answer: oneshot::Sender<Result<Value, QmpError>>,
}

type PendingAnswers = HashMap<u64, (&'static str, oneshot::Sender<Result<Value, QmpError>>)>;

pub(super) struct Link {
    lines: Lines<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    events: Arc<broadcast::Sender<Event>>,
    unanswered: PendingAnswers,
    next_id: u64,
}

impl Link {
    pub(super) fn new(
        lines: Lines<OwnedReadHalf>,
        writer: OwnedWriteHalf,
        events: Arc<broadcast::Sender<Event>>,
    ) -> Self {
        Self {
            lines,
            writer,
            events,
            unanswered: PendingAnswers::new(),
            next_id: 0,
        }
    }

    /// Until the other side hangs up or no handle to the connection is left.
    pub(super) async fn run(mut self, mut calls: mpsc::Receiver<PendingCall>) -> QmpError {
        loop {
            let done = tokio::select! {
                call = calls.recv() => match call {
                    Some(call) => self.send(call).await,
                    None => Err(QmpError::Closed),
                },
                line = self.lines.next() => match line {
                    Ok(Some(line)) => self.take(&line),
                    Ok(None) => Err(QmpError::Closed),
                    Err(error) => Err(error),
                },
            };
            if let Err(why) = done {
                return why;
            }
        }
    }

    async fn send(&mut self, call: PendingCall) -> Result<(), QmpError> {
        // Callers that gave up need no place.
        self.unanswered.retain(|_, (_, answer)| !answer.is_closed());
        self.next_id += 1;
        let message = Outgoing {
            execute: call.command,
            arguments: call.arguments.as_ref(),
            id: self.next_id,
        };
        let broken = |why: &str| QmpError::Broken(why.to_owned());
        let mut bytes = serde_json::to_vec(&message).map_err(|e| broken(&e.to_string()))?;
        bytes.push(b'\n');
        self.unanswered
            .insert(self.next_id, (call.command, call.answer));
        match timeout(WRITE, self.writer.write_all(&bytes)).await {
            // Why it hung up stands in what is still to be read.
            Ok(Err(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Ok(written) => written.map_err(|e| QmpError::of_io(&e)),
            Err(_) => Err(broken("QEMU reads no commands")),
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), QmpError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        match Incoming::read(line)? {
            Incoming::Returned { id, value } => self.answer(id, |_| Ok(value)),
            Incoming::Refused { id, class, why } => self.answer(id, |command| {
                Err(QmpError::Refused {
                    command,
                    class,
                    why,
                })
            }),
            Incoming::Happened { name, data } => {
                // There may be no listener.
                let _ = self.events.send(Event::read(name, &data));
            }
            Incoming::Greeting(_) => {
                return Err(QmpError::Garbage("a second greeting".into()));
            }
        }
        Ok(())
    }

    /// An answer that no caller waits for any more is dropped.
    fn answer(&mut self, id: u64, answer: impl FnOnce(&'static str) -> Result<Value, QmpError>) {
        if let Some((command, to)) = self.unanswered.remove(&id) {
            let _ = to.send(answer(command));
        }
    }
}
