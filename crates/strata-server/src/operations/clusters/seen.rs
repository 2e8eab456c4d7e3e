//! What was last seen of each cluster, in memory: whoever asks how a cluster
//! stands is answered at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_clusters::Observed;
use strata_clusters::status::Memory;
use tokio::sync::Notify;

/// What was seen of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its id: another of the same name was not seen.
    pub id: String,
    /// What its API told.
    pub observed: Observed,
    /// Since when what is broken is so.
    pub memory: Memory,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// What was seen of all clusters. Cheap to clone.
#[derive(Clone, Default)]
pub struct Sight(Arc<Inner>);

#[derive(Default)]
struct Inner {
    seen: Mutex<HashMap<String, Seen>>,
    wake: Notify,
}

impl Sight {
    fn guard(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was last seen of a cluster.
    pub fn get(&self, name: &str, id: &str) -> Option<Seen> {
        self.guard().get(name).filter(|seen| seen.id == id).cloned()
    }

    pub(crate) fn put(&self, name: &str, seen: Seen) {
        self.guard().insert(name.to_owned(), seen);
    }

    pub(super) fn forget(&self, name: &str) {
        self.guard().remove(name);
    }

    /// Something has changed: it is looked at soon.
    pub(super) fn look_soon(&self, _name: &str) {
        self.0.wake.notify_one();
    }

    /// Until somebody wants it looked at.
    pub(crate) async fn woken(&self) {
        self.0.wake.notified().await;
    }
}
