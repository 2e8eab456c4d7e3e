//! What a store holds, as plain data: no disk, no clock, no tasks.
//!
//! Changing it takes two steps. A [`Batch`] looks at the state and works out
//! what transactions would do, each on top of those before it; the [`Delta`]
//! that comes out of it is then applied. Between the two an engine can write
//! the delta to disk, while readers still read the state as it was.
//!
//! Times are durations since a moment that the engine chose.

mod batch;
mod history;
mod leases;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use batch::{Batch, Delta};
pub(crate) use history::HistoryBounds;
use history::{History, HistorySlice};
use leases::Leases;

use crate::{Change, Changes, Entry, LeaseId, Listing, Revision, StoreError};

/// What is kept under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) value: Bytes,
    pub(crate) created: Revision,
    pub(crate) changed: Revision,
    pub(crate) lease: Option<LeaseId>,
}

impl Held {
    fn entry(&self, key: &str) -> Entry {
        Entry {
            key: key.to_owned(),
            value: self.value.clone(),
            created: self.created,
            changed: self.changed,
            lease: self.lease,
        }
    }
}

#[derive(Debug)]
pub(crate) struct State {
    entries: BTreeMap<String, Held>,
    revision: Revision,
    history: History,
    leases: Leases,
}

impl State {
    pub(crate) fn new(bounds: HistoryBounds) -> Self {
        Self {
            entries: BTreeMap::new(),
            revision: 0,
            history: History::new(0, bounds),
            leases: Leases::default(),
        }
    }

    /// A state that was kept somewhere. Its past is not known; each lease has
    /// its whole time again.
    pub(crate) fn restored(
        entries: BTreeMap<String, Held>,
        revision: Revision,
        leases: &BTreeMap<LeaseId, Duration>,
        last_lease: LeaseId,
        bounds: HistoryBounds,
        now: Duration,
    ) -> Self {
        let mut kept = Leases::default();
        kept.note(last_lease);
        for (lease, ttl) in leases {
            kept.grant(*lease, *ttl, now);
        }
        for (key, held) in &entries {
            kept.bind(key, held.lease);
        }
        Self {
            entries,
            revision,
            history: History::new(revision, bounds),
            leases: kept,
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn get(&self, key: &str) -> Option<Entry> {
        self.entries.get(key).map(|held| held.entry(key))
    }

    pub(crate) fn list(&self, prefix: &str) -> Listing {
        let entries = self
            .entries
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, held)| held.entry(key))
            .collect();
        Listing {
            entries,
            revision: self.revision,
        }
    }

    /// What happened to `prefix` after a revision, a bounded part at a time.
    pub(crate) fn changes_after(
        &self,
        after: Revision,
        prefix: &str,
    ) -> Result<HistorySlice, StoreError> {
        self.history.after(after, prefix)
    }

    pub(crate) fn forget(&mut self) {
        self.history.forget();
    }

    /// Begins to work out what transactions would do.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch::new(self)
    }

    pub(crate) fn apply(&mut self, delta: Delta, now: Duration) {
        for (lease, ttl) in delta.granted {
            self.leases.grant(lease, ttl, now);
        }
        for changes in delta.changes {
            self.apply_changes(changes);
        }
        for lease in delta.ended {
            self.leases.end(lease);
        }
    }

    fn apply_changes(&mut self, changes: Changes) {
        for change in &changes.changes {
            match change {
                Change::Put(entry) => {
                    let held = Held {
                        value: entry.value.clone(),
                        created: entry.created,
                        changed: entry.changed,
                        lease: entry.lease,
                    };
                    let before = self.entries.insert(entry.key.clone(), held);
                    let before = before.and_then(|held| held.lease);
                    if before != entry.lease {
                        self.leases.unbind(&entry.key, before);
                        self.leases.bind(&entry.key, entry.lease);
                    }
                }
                Change::Deleted { key } => {
                    if let Some(held) = self.entries.remove(key) {
                        self.leases.unbind(key, held.lease);
                    }
                }
            }
        }
        self.revision = changes.revision;
        self.history.push(changes);
    }

    pub(crate) fn keep_alive(&mut self, lease: LeaseId, now: Duration) -> Result<(), StoreError> {
        self.leases.keep_alive(lease, now)
    }

    /// When a lease ends, as things stand.
    pub(crate) fn lease_ends(&self, lease: LeaseId) -> Option<Duration> {
        self.leases.ends(lease)
    }

    /// When the next lease ends, as things stand.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        self.leases.next_end()
    }

    /// Whether there are these leases and no others.
    pub(crate) fn has_leases(&self, leases: &BTreeMap<LeaseId, Duration>) -> bool {
        self.leases.are(leases)
    }

    /// Leases whose time is over.
    pub(crate) fn expired(&self, now: Duration) -> Vec<LeaseId> {
        self.leases.expired(now)
    }

    /// Whether a lease is being ended: from then on it is not kept alive,
    /// though its end is not on disk yet.
    pub(crate) fn set_ending(&mut self, leases: &[LeaseId], ending: bool) {
        for lease in leases {
            self.leases.set_ending(*lease, ending);
        }
    }
}
