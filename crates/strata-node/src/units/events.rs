//! Events of units, for subscribers. The latest are kept, so that a later
//! subscriber sees the history.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use strata_types::pod::PodState;
use tokio::sync::broadcast;

use crate::clock::now_ms;

/// How many are kept, and how far a listener may fall behind.
const CHANNEL_CAPACITY: usize = 1024;

/// Something that happened to a unit.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) at_ms: i64,
    pub(crate) name: Arc<str>,
    pub(crate) id: Arc<str>,
    pub(crate) state: PodState,
    pub(crate) message: Arc<str>,
}

/// A stream of events with a memory.
pub(crate) struct Events {
    live: broadcast::Sender<Event>,
    past: Mutex<VecDeque<Event>>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            live: broadcast::Sender::new(CHANNEL_CAPACITY),
            past: Mutex::default(),
        }
    }
}

impl Events {
    pub(super) fn tell(&self, name: &str, id: &str, state: PodState, message: &str) {
        let event = Event {
            at_ms: now_ms(),
            name: name.into(),
            id: id.into(),
            state,
            message: message.into(),
        };
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if past.len() == CHANNEL_CAPACITY {
            past.pop_front();
        }
        past.push_back(event.clone());
        // Under the lock: a subscriber receives each event once, in the past or
        // live. No subscribers is fine.
        let _ = self.live.send(event);
    }

    /// What happened so far, and what will from then on.
    pub(crate) fn listen(&self) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        (past.iter().cloned().collect(), self.live.subscribe())
    }
}
