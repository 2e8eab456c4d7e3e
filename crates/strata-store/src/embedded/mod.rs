//! The embedded engine: one file, one writer thread, all entries in memory.
//!
//! ```text
//! DIR/store.redb   the entries, the leases, the revision, the format
//! DIR/store.lock   its holder has the store open
//! DIR/store.revision  the last revision that was acknowledged
//! ```
//!
//! Reads are answered from memory and never wait for the disk. Writes go
//! through a bounded queue to the writer, which writes all that waits in one
//! transaction of the file.

mod disk;
mod error;
mod mark;
mod migrations;
mod queue;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::{oneshot, watch};

use crate::shared::{Shared, follow};
use crate::state::HistoryBounds;
use crate::{Entry, LeaseId, Listing, Revision, Store, StoreError, Transaction, Watch, limits};
use disk::Disk;
pub use error::OpenError;
use migrations::{MIGRATIONS, Migration};
use queue::{Job, Queue, Reply, closed};
use writer::{Writer, restored};

/// How an embedded store works.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// How many revisions are remembered for watches.
    pub history: usize,
    /// How many bytes of keys and values are remembered for watches.
    pub history_bytes: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        let HistoryBounds { revisions, bytes } = HistoryBounds::default();
        Self {
            history: revisions,
            history_bytes: bytes,
        }
    }
}

/// Keeps records in a file. Dropping it writes what still waits, and closes
/// the file.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    news: watch::Receiver<Revision>,
    start: Instant,
    writer: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens the store in a directory, or makes one. Blocks while all of it is
    /// read.
    ///
    /// # Errors
    /// When it is open already, written by a newer release, or unreadable.
    pub fn open(dir: &Path, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        Self::open_with(dir, options, MIGRATIONS)
    }

    /// Reads all of the store in a directory, every page and every entry. The
    /// answer is how many entries there are.
    ///
    /// # Errors
    /// When it is open, cannot be opened, or is damaged.
    pub fn check(dir: &Path) -> Result<usize, OpenError> {
        let (mut disk, snapshot) = Disk::open(dir, MIGRATIONS)?;
        match disk.check()? {
            true => Ok(snapshot.entries.len()),
            false => Err(OpenError::Damaged {
                dir: dir.to_owned(),
                what: "pages were not as they were written, and have been repaired".to_owned(),
            }),
        }
    }

    fn open_with(
        dir: &Path,
        options: &EmbeddedOptions,
        migrations: &'static [Migration],
    ) -> Result<Self, OpenError> {
        let (disk, snapshot) = Disk::open(dir, migrations)?;
        let start = Instant::now();
        let bounds = HistoryBounds {
            revisions: options.history,
            bytes: options.history_bytes,
        };
        let news = watch::Sender::new(snapshot.revision);
        let receiver = news.subscribe();
        let shared = Shared::new(restored(snapshot, bounds, Duration::ZERO));
        let queue = Arc::new(Queue::new());
        let writer = Writer {
            shared: shared.clone(),
            queue: queue.clone(),
            disk,
            news,
            bounds,
            start,
        };
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread = thread.spawn(|| writer.run());
        let thread = thread.map_err(|source| OpenError::Io {
            path: dir.to_owned(),
            source,
        })?;
        Ok(Self {
            shared,
            queue,
            news: receiver,
            start,
            writer: Some(thread),
        })
    }

    async fn ask<T>(
        &self,
        job: impl FnOnce(Reply<T>) -> Job,
        size: usize,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.queue.add(job(reply), size).await?;
        answer.await.map_err(|_| closed())?
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("store writer panicked");
        }
    }
}

impl Store for Embedded {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        let entry = limits::check_key(key).map(|()| self.shared.read().get(key));
        ready(entry).boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        ready(Ok(self.shared.read().list(prefix))).boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        async move {
            limits::check(&transaction)?;
            let size = limits::size(&transaction);
            self.ask(|reply| Job::Commit(transaction, reply), size)
                .await
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        let news = self.news.clone();
        ready(follow(self.shared.clone(), news, prefix, after)).boxed()
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        async move {
            limits::check_ttl(ttl)?;
            self.ask(|reply| Job::Grant(ttl, reply), 0).await
        }
        .boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        let now = self.start.elapsed();
        ready(self.shared.write().keep_alive(lease, now)).boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(move |reply| Job::Revoke(lease, reply), 0).boxed()
    }

    fn erase_overwritten(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(Job::Rewrite, 0).boxed()
    }
}
