//! What changed and was not read yet: a set that grows while its reader is
//! busy, and wakes the reader. A slow reader sees less often, never wrong, and
//! holds no more than there are things.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A set of things that changed.
#[derive(Debug)]
pub(crate) struct Dirty<T> {
    set: Mutex<HashSet<T>>,
    wake: Notify,
    retired: CancellationToken,
}

impl<T: Hash + Eq> Dirty<T> {
    pub(crate) fn new() -> Self {
        Self {
            set: Mutex::new(HashSet::new()),
            wake: Notify::new(),
            retired: CancellationToken::new(),
        }
    }

    fn guard(&self) -> MutexGuard<'_, HashSet<T>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mark(&self, thing: T) {
        self.guard().insert(thing);
        self.wake.notify_one();
    }

    /// Another has taken over from the reader.
    pub(crate) fn retire(&self) {
        self.retired.cancel();
    }

    /// Whether another has taken over, for what outlives the reader's borrow.
    pub(crate) fn retirement(&self) -> CancellationToken {
        self.retired.clone()
    }

    /// Waits until another has taken over.
    pub(crate) async fn retired(&self) {
        self.retired.cancelled().await;
    }

    /// All that changed, when the reader is woken. Cancel safe.
    pub(crate) async fn take(&self) -> HashSet<T> {
        self.wake.notified().await;
        std::mem::take(&mut *self.guard())
    }
}
