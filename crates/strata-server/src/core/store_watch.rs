//! Follows the store: reads all, then takes in every change; when the watch
//! ends, reads all again and reports what is different.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt as _;
use strata_store::{Change, Listing, Revision, StoreError};
use strata_types::{Error, Result};
use tokio::time::Instant;

use super::subscriptions::is_reached_otherwise;
use super::tables::{RecordChange, TableChange};
use super::{Core, Node, keys};

/// Between attempts to read from a store that does not answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long a write may take to come back by the watch. Beyond that the caller
/// is answered that it was written and cannot be shown.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether what is read happened just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publish {
    /// It did, as far as this server knows: it is an event.
    Yes,
    /// It is how everything was when the server started.
    No,
}

impl Core {
    /// Reads all records, and answers the revision they are of.
    pub(super) async fn load(&self, announce: Publish) -> Result<Revision> {
        let asked = Instant::now();
        let listing = self.0.store.list("").await.map_err(public)?;
        self.check_identity(&listing)?;
        let mut gone: HashSet<String> = self.tables().keys();
        for entry in listing.entries {
            gone.remove(&entry.key);
            self.apply_put(&Change::Put(entry), announce);
        }
        for key in gone {
            self.apply_put(&Change::Deleted { key }, announce);
        }
        self.0.applied.send_replace(listing.revision);
        self.0.freshness.confirm(asked);
        Ok(listing.revision)
    }

    /// Records which control plane these records are of.
    pub(super) fn read_identity(&self, id: &str) {
        let mut known = self
            .0
            .identity
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| id.to_owned());
    }

    pub(super) fn known_identity(&self) -> Option<String> {
        let known = self.0.identity.lock();
        known.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this takes from the store which control plane its records are of:
    /// then it was emptied, or is another one's. What else was deleted with that
    /// is not taken in; a listing decides.
    fn loses_identity(&self, change: &Change) -> bool {
        match change {
            Change::Deleted { key } => key == keys::RUN,
            Change::Put(entry) if entry.key == keys::RUN => {
                let known = self.known_identity();
                known.is_some_and(|known| known.as_bytes() != &*entry.value)
            }
            Change::Put(_) => false,
        }
    }

    /// Refuses the records of another control plane, and a store that was
    /// emptied: taken in, every instance would be gone, and every node would be
    /// sent that.
    fn check_identity(&self, listing: &Listing) -> Result<()> {
        let entry = listing.entries.iter().find(|it| it.key == keys::RUN);
        let found = entry.map(|it| String::from_utf8_lossy(&it.value).into_owned());
        let mut known = self
            .0
            .identity
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match (&*known, found) {
            (None, found) => *known = found,
            (Some(known), Some(found)) if *known == found => {}
            (Some(known), found) => {
                let found = found.map_or_else(
                    || "has none".to_owned(),
                    |found| format!("is of control plane {found}"),
                );
                return Err(Error::unavailable(format!(
                    "the store no longer has the records of control plane {known}: it {found}"
                ))
                .with_hint("bring the store back; nothing is done with this one"));
            }
        }
        Ok(())
    }

    /// Follows the store from a revision that is in the tables; from what it
    /// has now when none.
    pub(super) async fn follow_store(self, mut from: Option<Revision>) {
        loop {
            if let Some(from) = from {
                let ended = self.follow_once(from).await;
                tracing::warn!(why = %ended, "the watch of the store ended");
            }
            from = loop {
                match self.load(Publish::Yes).await {
                    Ok(revision) => break Some(revision),
                    Err(error) => tracing::warn!(%error, "the store cannot be read"),
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            };
        }
    }

    async fn follow_once(&self, from: Revision) -> StoreError {
        let mut watch = match self.0.store.watch("", from).await {
            Ok(watch) => watch,
            Err(error) => return error,
        };
        while let Some(next) = watch.next().await {
            match next {
                Ok(changes) => {
                    let mut all = changes.changes.iter();
                    if all.any(|change| self.loses_identity(change)) {
                        let why = "the store was emptied, or is another control plane's";
                        return StoreError::Unavailable(why.into());
                    }
                    for change in &changes.changes {
                        self.apply_put(change, Publish::Yes);
                    }
                    self.0.applied.send_if_modified(|now| {
                        let later = changes.revision > *now;
                        *now = changes.revision.max(*now);
                        later
                    });
                }
                Err(error) => return error,
            }
        }
        StoreError::Unavailable("it ended without a word".into())
    }

    /// Applies it to the tables, and notifies those that wait.
    fn apply_put(&self, change: &Change, announce: Publish) {
        let (applied, was_unreadable) = {
            let mut tables = self
                .0
                .tables
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let before = tables.unreadable.get(change.key()).cloned();
            (tables.apply(change), before)
        };
        if let (Change::Deleted { .. }, Some(gone)) = (change, was_unreadable)
            && let Some(id) = gone.instance()
        {
            // Its node keeps it no longer.
            let on = gone.node.as_deref();
            self.0.subscriptions.mark_links(on, &id);
        }
        match applied {
            Ok(Some(changed)) => {
                if let TableChange::Instance(change) = &changed
                    && let (Some(before), None) = (&change.before, &change.after)
                {
                    self.0.live.unindex_instance(&before.id);
                }
                if announce == Publish::Yes {
                    self.0.events.note(&changed);
                }
                if let TableChange::Node(change) = &changed {
                    self.apply_node(change);
                }
                self.0.subscriptions.notify(&changed);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, key = change.key(), "record cannot be read: kept unchanged");
            }
        }
    }

    /// Extends the range, and has links send the nodes that are reached in
    /// another way than before.
    fn apply_node(&self, change: &RecordChange<Node>) {
        if let Some(after) = &change.after {
            self.0.range.send_if_modified(|range| {
                let grown = range.grown_to(&after.subnet);
                std::mem::replace(range, grown) != grown
            });
        }
        if !is_reached_otherwise(change) {
            return;
        }
        let either = [&change.before, &change.after].into_iter().flatten();
        let names = {
            let tables = self.tables();
            either
                .flat_map(|node| {
                    let nested = tables.nested_below(&node.subnet).into_iter();
                    let nested = nested.map(str::to_owned);
                    nested.chain([node.name.clone()]).collect::<Vec<_>>()
                })
                .collect::<HashSet<String>>()
        };
        self.0.subscriptions.mark_peers(&names);
    }

    /// Waits until the tables are as of `revision`.
    pub(crate) async fn wait_until_applied(&self, revision: Revision) -> Result<(), StoreError> {
        let mut applied = self.0.applied.subscribe();
        let facts = applied.wait_for(|now| *now >= revision);
        match tokio::time::timeout(SETTLE_TIMEOUT, facts).await {
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::Unavailable(format!(
                "written at revision {revision}, which this server does not see yet"
            ))),
        }
    }
}

/// The public error: by what the caller can do about it.
#[allow(clippy::needless_pass_by_value)] // for map_err
pub(crate) fn public(error: StoreError) -> Error {
    match &error {
        StoreError::Conflict { .. } => {
            Error::new(strata_types::ErrorKind::Aborted, error.to_string())
                .with_hint("look at it again, then repeat the request")
        }
        StoreError::Unavailable(_) => Error::unavailable(error.to_string()),
        StoreError::Broken(_) => {
            Error::unavailable(error.to_string()).with_hint("see the server's log and its disk")
        }
        _ => Error::internal(error.to_string()),
    }
}
