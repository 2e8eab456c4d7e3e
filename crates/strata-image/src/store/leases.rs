//! What pulls under way need, and no record names yet; and what a caller is
//! about to use, and nothing runs from yet.
//!
//! A pull takes its lease before it looks whether something is there; a
//! prune decides and takes things out of their places while it holds the
//! lock on all leases. So nothing that a pull has seen goes away under it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{Image, Inner, Store, StoreError};
use crate::{Digest, Reference};

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

/// Keeps an image here for as long as it lives, whatever is removed or pruned
/// meanwhile. Drop it when the user of the image reports the use itself.
pub struct ImageHold {
    _lease: Lease,
}

impl Store {
    /// The image, held: nothing of it goes before the [`ImageHold`] does.
    pub fn hold(&self, reference: &Reference) -> Result<(Image, ImageHold), StoreError> {
        let lease = Lease::new(&self.0);
        // A prune decides under the same lock, so the image is seen whole and
        // held, or not seen.
        let mut leases = self.0.lock_leases();
        let image = self.show(reference)?;
        let held = leases.held.entry(lease.number).or_default();
        held.extend([image.digest, image.manifest.config.digest]);
        held.extend(image.manifest.layers.iter().map(|layer| layer.digest));
        held.extend(&image.config.rootfs.diff_ids);
        drop(leases);
        Ok((image, ImageHold { _lease: lease }))
    }
}

impl Inner {
    pub(super) fn lock_leases(&self) -> MutexGuard<'_, Leases> {
        // A thread that panicked with the lock left whole sets.
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
