//! QMP, the language QEMU is talked to in: a line of JSON each way, events in
//! between.
//!
//! QEMU serves one client at a time. A second one is left waiting without an
//! error, which is why it is the greeting that has a time limit. Dropping every
//! [`Qmp`] hangs up and leaves the guest as it is; connect again at any time.

mod calls;
pub(crate) mod event;
mod lines;
mod link;
pub(crate) mod message;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::Version;
pub use calls::{BlockStats, Status};
pub use event::{Event, Events};
use link::{Link, PendingCall};
use message::Incoming;

/// How long QEMU may take to answer. It answers at once, unless its disk or
/// its host is stuck.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a socket is tried that is not there yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// How many events are kept for a listener that is slow.
const EVENTS: usize = 64;

/// What can go wrong between us and a QEMU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QmpError {
    /// No process listens at the socket.
    #[error("cannot connect to {socket}: {why}")]
    Connect {
        socket: String,
        /// The message of the kernel.
        why: String,
    },
    /// Connected, but not greeted: it serves another client, or is stuck.
    #[error("{socket} did not greet within {within:?}: QEMU is stuck or serves another client")]
    NoGreeting {
        socket: String,
        /// How long it was given.
        within: Duration,
    },
    /// No answer to a command.
    #[error("no answer to {command} within {within:?}")]
    NoAnswer {
        command: &'static str,
        /// How long it was given.
        within: Duration,
    },
    /// QEMU refused a command.
    #[error("{command} was refused: {why} ({class})")]
    Refused {
        command: &'static str,
        /// QEMU's class of the error.
        class: String,
        why: String,
    },
    /// An answer of another shape than the command has.
    #[error("cannot read the answer to {command}: {why}")]
    Answer {
        command: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// What came is not QMP; nothing more is read from there.
    #[error("what came is not QMP: {0}")]
    Garbage(String),
    /// The other side has hung up: QEMU has ended.
    #[error("QEMU has hung up")]
    Closed,
    #[error("the connection to QEMU broke: {0}")]
    Broken(String),
}

impl QmpError {
    /// A peer that ends without having read all that was sent resets the
    /// connection.
    fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Broken(error.to_string()),
        }
    }
}

/// A connection to one QEMU. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Qmp {
    calls: mpsc::Sender<PendingCall>,
    events: Arc<broadcast::Sender<Event>>,
    ended: watch::Receiver<Option<QmpError>>,
    version: Version,
    answer_within: Duration,
}

impl Qmp {
    /// Connects, within a time. A socket that is not there yet is waited for:
    /// QEMU makes it shortly after its start.
    pub async fn connect(socket: &Path, within: Duration) -> Result<Self, QmpError> {
        let deadline = Instant::now() + within;
        let stream = reach(socket, deadline).await?;
        let greeted = timeout_at(deadline, Self::greet(stream)).await;
        let qmp = greeted.map_err(|_| QmpError::NoGreeting {
            socket: socket.display().to_string(),
            within,
        })??;
        tracing::debug!(socket = %socket.display(), version = %qmp.version, "connected to QEMU");
        Ok(qmp)
    }

    async fn greet(stream: UnixStream) -> Result<Self, QmpError> {
        let (reader, writer) = stream.into_split();
        let mut lines = lines::Lines::new(reader);
        let line = lines.next().await?.ok_or(QmpError::Closed)?;
        let version = match Incoming::read(&line)? {
            Incoming::Greeting(version) => version,
            _ => return Err(QmpError::Garbage("no greeting".into())),
        };
        // Each message of ours is answered before the next is of use.
        let (calls, waiting) = mpsc::channel(16);
        let (events, _) = broadcast::channel(EVENTS);
        let (end, ended) = watch::channel(None);
        let events = Arc::new(events);
        let link = Link::new(lines, writer, events.clone());
        strata_tasks::spawn_detached("qmp-link", async move {
            let why = link.run(waiting).await;
            end.send_replace(Some(why));
        });
        let qmp = Self {
            calls,
            events,
            ended,
            version,
            answer_within: REPLY_TIMEOUT,
        };
        qmp.execute::<Value>("qmp_capabilities", Value::Null)
            .await?;
        Ok(qmp)
    }

    /// The same connection, with another limit on how long an answer may
    /// take than the ten seconds it begins with.
    #[must_use]
    pub fn answering_within(mut self, within: Duration) -> Self {
        self.answer_within = within;
        self
    }

    /// Which QEMU it is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What happens from now on.
    pub fn events(&self) -> Events {
        Events::new(self.events.subscribe(), self.ended.clone())
    }

    /// Waits until the connection has ended, and returns why.
    pub async fn ended(&self) -> QmpError {
        let mut ended = self.ended.clone();
        let why = ended.wait_for(Option::is_some).await;
        why.ok()
            .and_then(|why| why.clone())
            .unwrap_or(QmpError::Closed)
    }

    /// Runs a command. `arguments` are an object, or nothing.
    pub async fn execute<T: DeserializeOwned>(
        &self,
        command: &'static str,
        arguments: impl Serialize,
    ) -> Result<T, QmpError> {
        let unreadable = |error: serde_json::Error| QmpError::Answer {
            command,
            why: error.to_string(),
        };
        let arguments = serde_json::to_value(arguments).map_err(unreadable)?;
        let (answer, answered) = oneshot::channel();
        let call = PendingCall {
            command,
            arguments: (!arguments.is_null()).then_some(arguments),
            answer,
        };
        let asked = async {
            if self.calls.send(call).await.is_err() {
                return Err(self.ended().await);
            }
            match answered.await {
                Ok(answer) => answer,
                Err(_) => Err(self.ended().await),
            }
        };
        let within = self.answer_within;
        let answer = timeout(within, asked)
            .await
            .map_err(|_| QmpError::NoAnswer { command, within })??;
        serde_json::from_value(answer).map_err(unreadable)
    }
}

/// Connects to a socket that may only just come to be.
async fn reach(socket: &Path, deadline: Instant) -> Result<UnixStream, QmpError> {
    let failed = |why: String| QmpError::Connect {
        socket: socket.display().to_string(),
        why,
    };
    loop {
        let error = match timeout_at(deadline, UnixStream::connect(socket)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error,
            Err(_) => return Err(failed("no answer in time".into())),
        };
        let may_come = matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused
        );
        let next = Instant::now() + RETRY_INTERVAL;
        if !may_come || next > deadline {
            return Err(failed(error.to_string()));
        }
        sleep_until(next).await;
    }
}
