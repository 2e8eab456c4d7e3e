//! One at a time for each piece of content: the second caller waits, and then
//! finds it there, or does the work itself when the first one failed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::Digest;

/// What is worked on: the same digest may be a blob and a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WorkItem {
    Blob(Digest),
    Layer(Digest),
}

#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Weak<AsyncMutex<()>>>>);

/// Content, and the digest of the source's name where it is work on what that
/// source sends.
type Key = (WorkItem, Option<Digest>);

/// The right to work on it. Cloned into blocking threads, so that it lasts
/// until they are done even when the task that waits for them is not there
/// any more.
pub(super) type WorkPermit = Arc<OwnedMutexGuard<()>>;

impl InFlight {
    pub(super) async fn turn(&self, work: WorkItem) -> WorkPermit {
        Arc::new(self.lock_of((work, None)).lock_owned().await)
    }

    /// The same for what one source sends.
    pub(super) async fn turn_of(&self, source: Digest, work: WorkItem) -> WorkPermit {
        let lock = self.lock_of((work, Some(source)));
        Arc::new(lock.lock_owned().await)
    }

    /// The same for a caller that has something else to do if it is taken.
    pub(super) fn try_turn(&self, work: WorkItem) -> Option<WorkPermit> {
        self.lock_of((work, None))
            .try_lock_owned()
            .ok()
            .map(Arc::new)
    }

    fn lock_of(&self, key: Key) -> Arc<AsyncMutex<()>> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, lock| lock.strong_count() > 0);
        match flights.get(&key).and_then(Weak::upgrade) {
            Some(lock) => lock,
            None => {
                let lock = Arc::new(AsyncMutex::new(()));
                flights.insert(key, Arc::downgrade(&lock));
                lock
            }
        }
    }
}
