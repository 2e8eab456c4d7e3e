//! A store that does not answer at a write of choice, and then works again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use strata_store::{
    Entry, LeaseId, Listing, Memory, Revision, Store, StoreError, Transaction, Watch,
};

pub(crate) struct Flaky {
    pub(crate) inner: Arc<Memory>,
    pub(crate) writes: AtomicUsize,
    /// The write it is about.
    pub(crate) fail_at: usize,
    /// Whether it has its effect.
    pub(crate) effect: bool,
}

impl Store for Flaky {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.inner.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.inner.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        if self.writes.fetch_add(1, Ordering::SeqCst) == self.fail_at {
            if self.effect {
                self.inner.fail_after(1);
            } else {
                self.inner.fail_before(1);
            }
        }
        self.inner.commit(transaction)
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
