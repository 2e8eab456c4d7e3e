//! Following things by server-sent events: first all there are, each as
//! `put`, then `synced`, then every change as `put` or `delete`. The id of an
//! event is the revision of the thing. Who reads too slowly is told `resync`
//! and gets all there are once more: it may see less often, never wrong.
//!
//! All there are is read page by page as the watcher takes it, so a watcher
//! holds one page at most, however many things there are, and one that does
//! not read holds next to nothing.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::ops::Bound;
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
/// How many things are read at once.
const PAGE: usize = 128;

/// What is followed.
pub(super) trait Watched: Send + 'static {
    /// The records.
    type Record: Send + Sync + 'static;

    /// The change, if it is to one of these records.
    fn turn(changed: Changed) -> Option<Turn<Self::Record>>;
    /// Whether this one is followed.
    fn accepts(&self, record: &Self::Record) -> bool;
    /// Those that are followed, as they are now, after this one in the order
    /// of their keys; from the first when none. Fewer than `limit`, where
    /// there is not one more.
    fn page(&self, after: Option<&Self::Record>, limit: usize) -> Vec<Arc<Kept<Self::Record>>>;
    /// When the thing was last written, if there is such a thing now.
    fn revision(&self, record: &Self::Record) -> Option<Revision>;
    /// The JSON of it.
    fn tell(&self, kept: &Kept<Self::Record>) -> Vec<u8>;
    /// Whether this is one thing alone, and all is said when it is gone.
    fn is_one(&self) -> bool;
}

/// The values after a key, in order; all of them without one.
pub(super) fn following<'a, K: Ord, V>(
    table: &'a BTreeMap<K, V>,
    after: Option<&K>,
) -> impl Iterator<Item = &'a V> {
    let after = after.map_or(Bound::Unbounded, Bound::Excluded);
    table
        .range((after, Bound::Unbounded))
        .map(|(_, value)| value)
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
    listing: Listing<W::Record>,
    /// Every change up to here had happened before the list was begun.
    begun: Revision,
    /// Changes up to here may have been told with the list.
    listed: Revision,
    over: bool,
}

/// How far the list of all there are was told.
enum Listing<T> {
    Begin,
    After(Arc<Kept<T>>),
    Done,
}

impl<W: Watched> Watch<W> {
    /// The ear is there before the look, so nothing is missed between.
    fn new(watched: W, changes: Receiver<Changed>) -> Self {
        Self {
            watched,
            changes,
            ready: VecDeque::new(),
            listing: Listing::Begin,
            begun: 0,
            listed: 0,
            over: false,
        }
    }

    /// Reads the next page of the list.
    fn list(&mut self) {
        let after = match &self.listing {
            Listing::Begin => None,
            Listing::After(last) => Some(&last.record),
            Listing::Done => return,
        };
        let page = self.watched.page(after, PAGE);
        let latest = page.iter().map(|one| one.revision).max().unwrap_or(0);
        if after.is_none() {
            self.begun = self.begun.max(latest);
            self.over |= page.is_empty() && self.watched.is_one();
        }
        self.listed = self.listed.max(latest);
        let last = page.last().filter(|_| page.len() >= PAGE).cloned();
        self.ready.extend(page.into_iter().map(Item::Put));
        self.listing = match last {
            Some(last) => Listing::After(last),
            None => {
                self.ready.push_back(Item::Synced);
                Listing::Done
            }
        };
    }

    fn take(&mut self, turn: Turn<W::Record>) {
        let accepted = |one: &Option<Arc<Kept<W::Record>>>| {
            one.as_ref().is_some_and(|one| self.watched.accepts(one))
        };
        let (was, is) = (accepted(&turn.before), accepted(&turn.after));
        match (turn.before, turn.after) {
            // It was in the list, or in a later state.
            (_, Some(after)) if self.was_listed(&after) => {}
            (_, Some(after)) if is => self.ready.push_back(Item::Put(after)),
            (_, Some(after)) if was => self.ready.push_back(Item::Delete(after)),
            (Some(before), None) if was && self.watched.revision(&before).is_none() => {
                self.ready.push_back(Item::Delete(before));
                self.over = self.watched.is_one();
            }
            _ => {}
        }
    }

    /// Whether the list told of this change already. The pages of a long list
    /// are read one after the other: of what changed meanwhile a page may hold
    /// a later state, after which an earlier one would be wrong. The latest
    /// state is told again in that case, which does no harm.
    fn was_listed(&self, after: &Kept<W::Record>) -> bool {
        let superseded = || {
            let now = self.watched.revision(after);
            now.is_some_and(|now| now > after.revision)
        };
        after.revision <= self.begun || (after.revision <= self.listed && superseded())
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(self.event(item));
            }
            if self.over {
                return None;
            }
            if !matches!(self.listing, Listing::Done) {
                self.list();
                continue;
            }
            match self.changes.recv().await {
                Ok(changed) => {
                    if let Some(turn) = W::turn(changed) {
                        self.take(turn);
                    }
                }
                Err(RecvError::Lagged(_)) => {
                    self.ready.push_back(Item::Resync);
                    self.listing = Listing::Begin;
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
