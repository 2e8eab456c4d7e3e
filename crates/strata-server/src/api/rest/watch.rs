//! Following things by server-sent events: first all there are, each as `put`,
//! then `synced`, then every change as `put` or `delete`. The id of an event is
//! the revision of the thing. A client that reads too slowly is sent `resync`
//! and gets all there are once more: it may see less often, never wrong.
//!
//! All there are is read page by page as the watcher takes it, so a watcher
//! holds one page at most, however many things there are, and one that does
//! not read holds next to nothing.

use std::collections::VecDeque;
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
use super::rejection::Rejection;
use crate::core::{Core, RecordChange, Resource, TableChange, Versioned};

/// A sign of life while nothing happens, so that no proxy in between takes the
/// connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How many things are read at once.
const PAGE: usize = 128;

/// The JSON of a record.
type Render<R> = Box<dyn Fn(&Versioned<R>) -> Vec<u8> + Send>;

/// Which records of a noun a watch follows, and how they are shown.
pub(super) struct Selection<R: Resource> {
    core: Core,
    only: Option<R::Key>,
    accepts: Box<dyn Fn(&R) -> bool + Send>,
    render: Render<R>,
}

impl<R: Resource> Selection<R> {
    /// All records that `accepts` says, as `render` shows them.
    pub(super) fn of(
        core: &Core,
        accepts: impl Fn(&R) -> bool + Send + 'static,
        render: impl Fn(&Versioned<R>) -> Result<Vec<u8>, Rejection> + Send + 'static,
    ) -> Self {
        Self {
            core: core.clone(),
            only: None,
            accepts: Box::new(accepts),
            render: Box::new(move |one| render(one).unwrap_or_default()),
        }
    }

    /// Only the record with this key; the watch ends when it is gone.
    pub(super) fn only(mut self, key: R::Key) -> Self {
        self.only = Some(key);
        self
    }

    fn accepts(&self, record: &R) -> bool {
        let only = self.only.as_ref().is_none_or(|only| only == record.key());
        only && (self.accepts)(record)
    }

    /// The records as they are now, after this one in the order of their keys;
    /// from the first if there is none. Fewer than `limit` at the end.
    fn page(&self, after: Option<&R>, limit: usize) -> Vec<Arc<Versioned<R>>> {
        let tables = self.core.tables();
        let rows = R::rows(&tables);
        let accepted = |one: &&Arc<Versioned<R>>| self.accepts(one);
        match &self.only {
            Some(key) => rows
                .get(key)
                .filter(accepted)
                .cloned()
                .into_iter()
                .collect(),
            None => {
                let after = after.map_or(Bound::Unbounded, |one| Bound::Excluded(one.key()));
                let rest = rows.range((after, Bound::Unbounded));
                let rest = rest.map(|(_, one)| one).filter(accepted);
                rest.take(limit).cloned().collect()
            }
        }
    }

    /// When a record was last written, if it is there now.
    fn revision(&self, record: &R) -> Option<Revision> {
        let tables = self.core.tables();
        R::rows(&tables).get(record.key()).map(|one| one.revision)
    }
}

enum Item<T> {
    Put(Arc<Versioned<T>>),
    Delete(Arc<Versioned<T>>),
    Synced,
    Resync,
}

struct Watch<R: Resource> {
    watched: Selection<R>,
    changes: Receiver<TableChange>,
    ready: VecDeque<Item<R>>,
    listing: Listing<R>,
    /// Every change up to here had happened before the list was begun.
    begun: Revision,
    /// Changes up to here may have been sent with the list.
    listed: Revision,
    over: bool,
}

/// How far the list of all there are was sent.
enum Listing<T> {
    Begin,
    After(Arc<Versioned<T>>),
    Done,
}

impl<R: Resource> Watch<R> {
    /// The ear is there before the look, so nothing is missed between.
    fn new(watched: Selection<R>, changes: Receiver<TableChange>) -> Self {
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
            self.over |= page.is_empty() && self.watched.only.is_some();
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

    fn take(&mut self, turn: RecordChange<R>) {
        let accepted = |one: &Option<Arc<Versioned<R>>>| {
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
                self.over = self.watched.only.is_some();
            }
            _ => {}
        }
    }

    /// Whether the list reported this change already. The pages of a long list
    /// are read one after the other: of what changed meanwhile a page may hold
    /// a later state, after which an earlier one would be wrong. The latest
    /// state is sent again in that case, which does no harm.
    fn was_listed(&self, after: &Versioned<R>) -> bool {
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
                    if let Some(turn) = R::change_of(changed) {
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

    fn event(&self, item: Item<R>) -> Event {
        match item {
            Item::Put(one) => self.thing("put", &one),
            Item::Delete(one) => self.thing("delete", &one),
            Item::Synced => Event::default().event("synced").data("{}"),
            Item::Resync => Event::default().event("resync").data("{}"),
        }
    }

    fn thing(&self, word: &str, one: &Versioned<R>) -> Event {
        let text = (self.watched.render)(one);
        let text = String::from_utf8_lossy(&text);
        let id = one.revision.to_string();
        Event::default().event(word).id(id).data(text)
    }
}

/// Follows until the reader goes, the server ends, or it was long enough.
pub(super) fn follow<R: Resource>(state: &RestState, watched: Selection<R>) -> Response {
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
