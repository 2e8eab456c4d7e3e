//! The simulated engine: keeps records in memory, and fails on request.
//!
//! It behaves as the others do, but for durability. Tests make it fail before
//! or after the effect, hold commits back, break watches, drop the past and let
//! time pass for leases.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::shared::{Shared, follow};
use crate::state::{Batch, HistoryBounds, State};
use crate::{Entry, LeaseId, Listing, Revision, Store, StoreError, Transaction, Watch, limits};

/// Keeps records in memory. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    news: Mutex<watch::Sender<Revision>>,
    faults: Mutex<Faults>,
    held: watch::Sender<bool>,
    waiting: AtomicUsize,
    start: Instant,
    // How far time was pushed ahead.
    ahead: Mutex<Duration>,
}

#[derive(Debug, Default)]
struct Faults {
    before: usize,
    after: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_history(HistoryBounds::default().revisions)
    }

    /// An empty store that remembers so many revisions.
    #[must_use]
    pub fn with_history(revisions: usize) -> Self {
        let bounds = HistoryBounds {
            revisions,
            ..HistoryBounds::default()
        };
        Self(Arc::new(Inner {
            shared: Shared::new(State::new(bounds)),
            news: Mutex::new(watch::Sender::new(0)),
            faults: Mutex::default(),
            held: watch::Sender::new(false),
            waiting: AtomicUsize::new(0),
            start: Instant::now(),
            ahead: Mutex::default(),
        }))
    }

    /// The next `commits` answer that the store is unavailable, and do
    /// nothing.
    pub fn fail_before(&self, commits: usize) {
        self.0.faults().before = commits;
    }

    /// The next `commits` do what they should, and answer that the store is
    /// unavailable. They come after those that fail before.
    pub fn fail_after(&self, commits: usize) {
        self.0.faults().after = commits;
    }

    /// Commits wait from now on, before they have any effect.
    pub fn hold(&self) {
        self.0.held.send_replace(true);
    }

    pub fn release(&self) {
        self.0.held.send_replace(false);
    }

    /// How many commits are held now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::SeqCst)
    }

    /// Ends every watch there is, as a lost connection does.
    pub fn break_watches(&self) {
        let revision = self.0.shared.read().revision();
        *lock(&self.0.news) = watch::Sender::new(revision);
    }

    /// Drops the past: only watches from the present on can begin.
    pub fn forget(&self) {
        self.0.shared.write().forget();
    }

    /// Lets time pass for leases.
    pub fn advance(&self, time: Duration) {
        *lock(&self.0.ahead) += time;
        self.0.end_expired();
    }

    /// The revision of the last transaction.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.shared.read().revision()
    }
}

impl Inner {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }

    fn now(&self) -> Duration {
        self.start.elapsed() + *lock(&self.ahead)
    }

    /// Computes a change, applies it and notifies the watchers.
    fn change<T>(&self, work: impl FnOnce(&mut Batch<'_>) -> T) -> T {
        let now = self.now();
        let mut state = self.shared.write();
        let mut batch = state.batch();
        for lease in state.expired(now) {
            batch.end(lease);
        }
        let answer = work(&mut batch);
        let delta = batch.finish();
        let news = !delta.changes.is_empty();
        state.apply(delta, now);
        let revision = state.revision();
        drop(state);
        if news {
            lock(&self.news).send_replace(revision);
        }
        answer
    }

    fn end_expired(&self) {
        self.change(|_| ());
    }

    async fn commit(&self, transaction: Transaction) -> Result<Revision, StoreError> {
        limits::check(&transaction)?;
        self.pass().await;
        let mut faults = self.faults();
        if faults.before > 0 {
            faults.before -= 1;
            return Err(StoreError::Unavailable(
                "injected failure before the commit".to_owned(),
            ));
        }
        let fail_after = faults.after > 0;
        faults.after = faults.after.saturating_sub(1);
        drop(faults);
        let answer = self.change(|batch| batch.commit(transaction));
        if fail_after {
            return Err(StoreError::Unavailable(
                "injected failure after the commit".to_owned(),
            ));
        }
        answer
    }

    /// Waits while commits are held.
    async fn pass(&self) {
        let mut held = self.held.subscribe();
        if !*held.borrow_and_update() {
            return;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waits = HeldCommit(&self.waiting);
        // The sender is ours: it is not gone while we wait.
        let _ = held.wait_for(|held| !held).await;
    }
}

/// Counts a held commit until it goes on or is given up.
struct HeldCommit<'a>(&'a AtomicUsize);

impl Drop for HeldCommit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends a lease at its time, unless the store is gone by then.
async fn end_in_time(inner: Weak<Inner>, lease: LeaseId) {
    loop {
        let wait = {
            let Some(inner) = inner.upgrade() else { return };
            inner.end_expired();
            let Some(ends) = inner.shared.read().lease_ends(lease) else {
                return;
            };
            ends.saturating_sub(inner.now())
        };
        tokio::time::sleep(wait).await;
    }
}

impl Store for Memory {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        let entry = limits::check_key(key).map(|()| self.0.shared.read().get(key));
        ready(entry).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        ready(Ok(self.0.shared.read().list(prefix))).boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.0.commit(transaction).boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        let news = lock(&self.0.news).subscribe();
        ready(follow(self.0.shared.clone(), news, prefix, after)).boxed()
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        async move {
            limits::check_ttl(ttl)?;
            let lease = self.0.change(|batch| batch.grant(ttl));
            strata_tasks::spawn_detached(
                "lease-expiry",
                end_in_time(Arc::downgrade(&self.0), lease),
            );
            Ok(lease)
        }
        .boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        let now = self.0.now();
        let answer = self.0.shared.write().keep_alive(lease, now);
        ready(answer).boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.0.change(|batch| batch.end(lease));
            Ok(())
        }
        .boxed()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
