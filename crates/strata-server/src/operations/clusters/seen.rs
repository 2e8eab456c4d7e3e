//! What was last seen of each cluster, in memory: whoever asks how a cluster
//! stands is answered at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_clusters::Observed;
use strata_clusters::status::Memory;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What was seen of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its id: another of the same name was not seen.
    pub id: String,
    /// What its API told.
    pub observed: Observed,
    /// Since when what is broken is so.
    pub memory: Memory,
    /// Whether it has ever answered this server.
    pub answered: bool,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
    /// The number of the look: of two that overlap, the one that began later
    /// counts.
    pub look: u64,
}

/// What was seen of all clusters. Cheap to clone.
#[derive(Clone, Default)]
pub struct Sight(Arc<Inner>);

struct Inner {
    seen: Mutex<HashMap<String, Seen>>,
    wake: Notify,
    since: Instant,
    looks: AtomicU64,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
            wake: Notify::new(),
            since: Instant::now(),
            looks: AtomicU64::new(0),
        }
    }
}

impl Sight {
    fn guard(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was last seen of a cluster.
    pub fn get(&self, name: &str, id: &str) -> Option<Seen> {
        self.guard().get(name).filter(|seen| seen.id == id).cloned()
    }

    /// What counts of it after so long: before, machines may not have found
    /// this server again, and a cluster that never answered it may only not
    /// have been reached.
    pub(super) fn settled(&self, name: &str, id: &str, after: Duration) -> Option<Seen> {
        let seen = self.get(name, id);
        let is_early = self.0.since.elapsed() < after;
        seen.filter(|seen| seen.answered || !is_early)
    }

    /// The number of a look that begins now.
    pub(super) fn begin(&self) -> u64 {
        self.0.looks.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps what was seen, unless a later look has ended before.
    pub(crate) fn put(&self, name: &str, seen: Seen) {
        let mut all = self.guard();
        let before = all.get(name).filter(|before| before.id == seen.id);
        if before.is_none_or(|before| before.look <= seen.look) {
            all.insert(name.to_owned(), seen);
        }
    }

    pub(crate) fn forget(&self, name: &str) {
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
