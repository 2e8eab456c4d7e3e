//! What QEMU reports by itself.

use serde_json::Value;
use tokio::sync::{broadcast, watch};

use super::QmpError;

/// Something happened to a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is off; QEMU ends.
    Shutdown {
        /// Whether the guest did it, not we.
        by_guest: bool,
    },
    /// Its power button was pressed.
    PowerDown,
    /// It boots again.
    Reset {
        /// Whether the guest did it, not we.
        by_guest: bool,
    },
    /// Its cpus stand still.
    Stop,
    /// Its cpus run again.
    Resume,
    /// Its kernel reports that it cannot go on.
    Panicked,
    /// Something else, by QEMU's name for it.
    Unknown(String),
    /// The listener was too slow for this many events: query the status.
    Missed(u64),
}

impl Event {
    pub(crate) fn read(name: String, data: &Value) -> Self {
        let by_guest = data["guest"].as_bool().unwrap_or(false);
        match name.as_str() {
            "SHUTDOWN" => Self::Shutdown { by_guest },
            "POWERDOWN" => Self::PowerDown,
            "RESET" => Self::Reset { by_guest },
            "STOP" => Self::Stop,
            "RESUME" => Self::Resume,
            "GUEST_PANICKED" => Self::Panicked,
            _ => Self::Unknown(name),
        }
    }
}

/// The events of one connection, from when they were requested.
#[derive(Debug)]
pub struct Events {
    from: broadcast::Receiver<Event>,
    ended: watch::Receiver<Option<QmpError>>,
}

impl Events {
    pub(super) fn new(
        from: broadcast::Receiver<Event>,
        ended: watch::Receiver<Option<QmpError>>,
    ) -> Self {
        Self { from, ended }
    }

    /// The next event; none once the connection has ended. Loses nothing when
    /// the caller stops waiting.
    pub async fn next(&mut self) -> Option<Event> {
        use broadcast::error::{RecvError, TryRecvError};
        tokio::select! {
            biased;
            event = self.from.recv() => match event {
                Ok(event) => Some(event),
                Err(RecvError::Lagged(count)) => Some(Event::Missed(count)),
                Err(RecvError::Closed) => None,
            },
            // What came before the end is still delivered.
            _ = self.ended.wait_for(Option::is_some) => match self.from.try_recv() {
                Ok(event) => Some(event),
                Err(TryRecvError::Lagged(count)) => Some(Event::Missed(count)),
                Err(TryRecvError::Empty | TryRecvError::Closed) => None,
            },
        }
    }
}
