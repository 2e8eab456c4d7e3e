//! Transactions worked out one on top of the other, before any of them is.

use std::collections::HashMap;
use std::time::Duration;

use super::{Held, State};
use crate::{Change, Changes, Condition, Entry, LeaseId, Revision, StoreError, Transaction, Write};

/// What a batch does to a state.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// In the order of their revisions.
    pub(crate) changes: Vec<Changes>,
    /// New leases, with how long they last.
    pub(crate) granted: Vec<(LeaseId, Duration)>,
    /// Leases that are no more.
    pub(crate) ended: Vec<LeaseId>,
}

impl Delta {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.granted.is_empty() && self.ended.is_empty()
    }
}

/// A state and what was worked out so far. The state stays as it is.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    state: &'a State,
    // What keys hold after all so far; none if they are gone.
    pending: HashMap<String, Option<Held>>,
    revision: Revision,
    last_lease: LeaseId,
    delta: Delta,
}

impl<'a> Batch<'a> {
    pub(super) fn new(state: &'a State) -> Self {
        Self {
            state,
            pending: HashMap::new(),
            revision: state.revision,
            last_lease: state.leases.last(),
            delta: Delta::default(),
        }
    }

    /// Adds a transaction, or nothing at all if it cannot be. The answer is
    /// the revision that it has, or the present one if it changes nothing.
    pub(crate) fn commit(&mut self, transaction: Transaction) -> Result<Revision, StoreError> {
        for condition in &transaction.conditions {
            self.check(condition)?;
        }
        for write in &transaction.writes {
            if let Write::Put {
                lease: Some(lease), ..
            } = write
                && !self.has_lease(*lease)
            {
                return Err(StoreError::NoSuchLease(*lease));
            }
        }
        self.write(transaction.writes);
        Ok(self.revision)
    }

    pub(crate) fn grant(&mut self, ttl: Duration) -> LeaseId {
        self.last_lease.0 += 1;
        self.delta.granted.push((self.last_lease, ttl));
        self.last_lease
    }

    /// Ends a lease with all its keys, if it is there.
    pub(crate) fn end(&mut self, lease: LeaseId) {
        if !self.has_lease(lease) {
            return;
        }
        let bound_before = self.state.leases.keys(lease);
        let mut keys: Vec<_> = bound_before
            .chain(self.pending.keys())
            .filter(|key| self.held(key).is_some_and(|it| it.lease == Some(lease)))
            .cloned()
            .collect();
        keys.sort_unstable();
        keys.dedup();
        self.write(keys.into_iter().map(|key| Write::Delete { key }).collect());
        self.delta.ended.push(lease);
    }

    /// What came out of it.
    pub(crate) fn finish(self) -> Delta {
        self.delta
    }

    fn held(&self, key: &str) -> Option<&Held> {
        match self.pending.get(key) {
            Some(pending) => pending.as_ref(),
            None => self.state.entries.get(key),
        }
    }

    fn has_lease(&self, lease: LeaseId) -> bool {
        let granted = || self.delta.granted.iter().any(|(id, _)| *id == lease);
        !self.delta.ended.contains(&lease) && (self.state.leases.has(lease) || granted())
    }

    fn check(&self, condition: &Condition) -> Result<(), StoreError> {
        let holds = match condition {
            Condition::Absent(key) => self.held(key).is_none(),
            Condition::Unchanged(key, revision) => {
                self.held(key).is_some_and(|it| it.changed == *revision)
            }
        };
        if holds {
            return Ok(());
        }
        Err(StoreError::Conflict {
            key: condition.key().to_owned(),
        })
    }

    fn write(&mut self, mut writes: Vec<Write>) {
        let revision = self.revision + 1;
        writes.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        let mut changes = Vec::with_capacity(writes.len());
        for write in writes {
            match write {
                Write::Put { key, value, lease } => {
                    let held = Held {
                        value,
                        created: self.held(&key).map_or(revision, |it| it.created),
                        changed: revision,
                        lease,
                    };
                    changes.push(Change::Put(Entry {
                        key: key.clone(),
                        value: held.value.clone(),
                        created: held.created,
                        changed: held.changed,
                        lease,
                    }));
                    self.pending.insert(key, Some(held));
                }
                Write::Delete { key } => {
                    if self.held(&key).is_some() {
                        self.pending.insert(key.clone(), None);
                        changes.push(Change::Deleted { key });
                    }
                }
            }
        }
        if !changes.is_empty() {
            self.revision = revision;
            self.delta.changes.push(Changes { revision, changes });
        }
    }
}
