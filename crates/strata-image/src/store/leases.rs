//! What pulls under way need, and no record names yet.
//!
//! A pull takes its lease before it looks whether something is there; a
//! prune decides and takes things out of their places while it holds the
//! lock on all leases. So nothing that a pull has seen goes away under it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::Inner;
use crate::Digest;

#[derive(Default)]
pub(super) struct Leases {
    next: u64,
    held: HashMap<u64, HashSet<Digest>>,
}

impl Leases {
    pub(super) fn all(&self) -> HashSet<Digest> {
        self.held.values().flatten().copied().collect()
    }
}

/// Keeps what it names for as long as it lives.
pub(super) struct Lease {
    store: Arc<Inner>,
    number: u64,
}

impl Lease {
    pub(super) fn new(store: &Arc<Inner>) -> Self {
        let mut leases = store.lock_leases();
        leases.next += 1;
        let number = leases.next;
        leases.held.insert(number, HashSet::new());
        Self {
            store: Arc::clone(store),
            number,
        }
    }

    pub(super) fn add(&self, digests: impl IntoIterator<Item = Digest>) {
        let mut leases = self.store.lock_leases();
        leases.held.entry(self.number).or_default().extend(digests);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.store.lock_leases().held.remove(&self.number);
    }
}

impl Inner {
    pub(super) fn lock_leases(&self) -> MutexGuard<'_, Leases> {
        // Whoever died with it left whole sets.
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
