//! Following things by server-sent events: first all there are, each as
//! `put`, then `synced`, then every change as `put` or `delete`. The id of an
//! event is the revision of the thing. Who reads too slowly is told `resync`
//! and gets all there are once more: it may see less often, never wrong.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt as _, stream};
use strata_store::Revision;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::RestState;
use crate::core::{Changed, Kept, Turn};

/// A sign of life while nothing happens, so that nobody between takes the
/// connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What is followed.
pub(super) trait Watched: Send + 'static {
    /// The records.
    type Record: Send + Sync + 'static;

    /// The change, if it is to one of these records.
    fn turn(changed: Changed) -> Option<Turn<Self::Record>>;
    /// Whether this one is followed.
    fn accepts(&self, record: &Self::Record) -> bool;
    /// All that are followed, as they are now.
    fn current(&self) -> Vec<Arc<Kept<Self::Record>>>;
    /// Whether there is such a thing now.
    fn is_there(&self, record: &Self::Record) -> bool;
    /// The JSON of it.
    fn tell(&self, kept: &Kept<Self::Record>) -> Vec<u8>;
    /// Whether this is one thing alone, and all is said when it is gone.
    fn is_one(&self) -> bool;
}

enum Item<T> {
    Put(Arc<Kept<T>>),
    Delete(Arc<Kept<T>>),
    Synced,
    Resync,
}

struct Watch<W: Watched> {
    watched: W,
    changes: Receiver<Changed>,
    ready: VecDeque<Item<W::Record>>,
    /// Everything up to here was told with the whole.
    told: Revision,
    over: bool,
}

impl<W: Watched> Watch<W> {
    /// The ear is there before the look, so nothing is missed between.
    fn new(watched: W, changes: Receiver<Changed>) -> Self {
        let mut watch = Self {
            watched,
            changes,
            ready: VecDeque::new(),
            told: 0,
            over: false,
        };
        watch.take_all();
        watch
    }

    fn take_all(&mut self) {
        let all = self.watched.current();
        let last = all.iter().map(|one| one.revision).max();
        self.told = self.told.max(last.unwrap_or(0));
        self.over |= all.is_empty() && self.watched.is_one();
        self.ready.extend(all.into_iter().map(Item::Put));
        self.ready.push_back(Item::Synced);
    }

    fn take(&mut self, turn: Turn<W::Record>) {
        let accepted = |one: &Option<Arc<Kept<W::Record>>>| {
            one.as_ref().is_some_and(|one| self.watched.accepts(one))
        };
        let (was, is) = (accepted(&turn.before), accepted(&turn.after));
        match (turn.before, turn.after) {
            // It was in the whole, or in a later state.
            (_, Some(after)) if after.revision <= self.told => {}
            (_, Some(after)) if is => self.ready.push_back(Item::Put(after)),
            (_, Some(after)) if was => self.ready.push_back(Item::Delete(after)),
            (Some(before), None) if was && !self.watched.is_there(&before) => {
                self.ready.push_back(Item::Delete(before));
                self.over = self.watched.is_one();
            }
            _ => {}
        }
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(self.event(item));
            }
            if self.over {
                return None;
            }
            match self.changes.recv().await {
                Ok(changed) => {
                    if let Some(turn) = W::turn(changed) {
                        self.take(turn);
                    }
                }
                Err(RecvError::Lagged(_)) => {
                    self.ready.push_back(Item::Resync);
                    self.take_all();
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn event(&self, item: Item<W::Record>) -> Event {
        match item {
            Item::Put(one) => self.thing("put", &one),
            Item::Delete(one) => self.thing("delete", &one),
            Item::Synced => Event::default().event("synced").data("{}"),
            Item::Resync => Event::default().event("resync").data("{}"),
        }
    }

    fn thing(&self, word: &str, one: &Kept<W::Record>) -> Event {
        let text = self.watched.tell(one);
        let text = String::from_utf8_lossy(&text);
        let id = one.revision.to_string();
        Event::default().event(word).id(id).data(text)
    }
}

/// Follows until the reader goes, the server ends, or it was long enough.
pub(super) fn follow<W: Watched>(state: &RestState, watched: W) -> Response {
    let watch = Watch::new(watched, state.core.watch_all());
    let events = stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((event, watch))
    });
    answer(state, events)
}

/// Events, with an end.
pub(super) fn answer(
    state: &RestState,
    events: impl Stream<Item = Event> + Send + 'static,
) -> Response {
    let (shutdown, longest) = (state.shutdown.clone(), state.longest_watch);
    let end = async move {
        let _ = tokio::time::timeout(longest, shutdown.cancelled()).await;
    };
    let events = events.take_until(Box::pin(end)).map(Ok::<_, Infallible>);
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(HEARTBEAT))
        .into_response()
}
