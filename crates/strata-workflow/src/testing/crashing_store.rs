//! A store whose user dies at a write of choice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_store::{Entry, LeaseId, Listing, Revision, Store, StoreError, Transaction, Watch};
use tokio::sync::watch;

/// Where in a write its writer dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    BeforeEffect,
    /// It was written, and the answer was lost.
    AfterEffect,
}

/// A store that lets so many writes pass and never answers the next: for the
/// writer it is as if the program had died there. The test drops it then and
/// goes on with the store inside.
pub struct CrashingStore {
    inner: Arc<dyn Store>,
    left: AtomicUsize,
    death: CrashPoint,
    dead: watch::Sender<bool>,
}

impl CrashingStore {
    /// Dies at the write after `commits`.
    pub fn new(inner: Arc<dyn Store>, commits: usize, death: CrashPoint) -> Self {
        Self {
            inner,
            left: AtomicUsize::new(commits),
            death,
            dead: watch::Sender::new(false),
        }
    }

    /// Waits for the death.
    pub async fn crashed(&self) {
        // The sender is ours: it is not gone while we wait.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }

    async fn pass(&self, transaction: Transaction) -> Result<Revision, StoreError> {
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        if left.is_ok() {
            return self.inner.commit(transaction).await;
        }
        if !*self.dead.borrow() && self.death == CrashPoint::AfterEffect {
            // Whatever it answers is lost.
            let _ = self.inner.commit(transaction).await;
        }
        self.dead.send_replace(true);
        std::future::pending().await
    }
}

impl Store for CrashingStore {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.inner.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.inner.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.pass(transaction).boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        self.inner.watch(prefix, after)
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.revoke(lease)
    }
}
