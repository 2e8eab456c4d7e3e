//! One at a time for each piece of content: whoever comes second waits, and
//! then finds it there, or does it himself when the first one failed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::Digest;

/// What is worked on: the same digest may be a blob and a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Blob(Digest),
    Layer(Digest),
}

#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Work, Weak<AsyncMutex<()>>>>);

/// The right to work on it. Cloned into blocking threads, so that it lasts
/// until they are done even when the task that waits for them is not there
/// any more.
pub(super) type Turn = Arc<OwnedMutexGuard<()>>;

impl Flights {
    pub(super) async fn turn(&self, work: Work) -> Turn {
        let lock = {
            let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            flights.retain(|_, lock| lock.strong_count() > 0);
            match flights.get(&work).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(AsyncMutex::new(()));
                    flights.insert(work, Arc::downgrade(&lock));
                    lock
                }
            }
        };
        Arc::new(lock.lock_owned().await)
    }
}
