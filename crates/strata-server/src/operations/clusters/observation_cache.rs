//! The latest observation of each cluster, in memory, so that queries are
//! answered without calling the cluster.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_clusters::Observed;
use strata_clusters::status::OutageHistory;
use tokio::sync::Notify;
use tokio::time::Instant;

/// One observation of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterObservation {
    /// Id of the cluster: an observation of an earlier cluster of the same name
    /// does not count.
    pub id: String,
    /// What its API reported.
    pub observed: Observed,
    /// Since when each problem holds.
    pub memory: OutageHistory,
    /// Whether it has ever answered this server.
    pub answered: bool,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
    /// Sequence number: of two overlapping observations the one that started
    /// later counts.
    pub sequence: u64,
}

/// The latest observations of all clusters. Cheap to clone.
#[derive(Clone, Default)]
pub struct ObservationCache(Arc<Inner>);

struct Inner {
    observations: Mutex<HashMap<String, ClusterObservation>>,
    wake: Notify,
    since: Instant,
    sequence: AtomicU64,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            observations: Mutex::default(),
            wake: Notify::new(),
            since: Instant::now(),
            sequence: AtomicU64::new(0),
        }
    }
}

impl ObservationCache {
    fn guard(&self) -> MutexGuard<'_, HashMap<String, ClusterObservation>> {
        self.0
            .observations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest observation of a cluster.
    pub fn get(&self, name: &str, id: &str) -> Option<ClusterObservation> {
        self.guard()
            .get(name)
            .filter(|observation| observation.id == id)
            .cloned()
    }

    /// What counts of it after so long: before, machines may not have found
    /// this server again, and a cluster that never answered it may only not
    /// have been reached.
    pub(super) fn settled(
        &self,
        name: &str,
        id: &str,
        after: Duration,
    ) -> Option<ClusterObservation> {
        let observation = self.get(name, id);
        let is_early = self.0.since.elapsed() < after;
        observation.filter(|observation| observation.answered || !is_early)
    }

    /// The sequence number of an observation that starts now.
    pub(super) fn begin(&self) -> u64 {
        self.0.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Stores an observation, unless a later one was stored before.
    pub(crate) fn put(&self, name: &str, observation: ClusterObservation) {
        let mut all = self.guard();
        let before = all.get(name).filter(|before| before.id == observation.id);
        if before.is_none_or(|before| before.sequence <= observation.sequence) {
            all.insert(name.to_owned(), observation);
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        self.guard().remove(name);
    }

    /// Requests an observation of all clusters soon.
    pub(super) fn request_refresh(&self) {
        self.0.wake.notify_one();
    }

    /// Waits for a requested observation.
    pub(crate) async fn refresh_requested(&self) {
        self.0.wake.notified().await;
    }
}
