//! Where records are kept: one trait, an embedded engine and etcd.
//!
//! A store maps keys to values. Every change happens in a [`Transaction`]: all
//! of its writes or none, and only if all of its conditions hold. Each
//! transaction that changed something has a [`Revision`], one higher than the
//! one before in the embedded engine, higher by any amount in etcd. A watcher
//! of a prefix from a revision sees every change after it, in order and once.
//! Keys that are bound to a lease go when it ends.
//!
//! What is acknowledged is on disk. What is read is on disk, too: no reader
//! acts on what a crash could undo.
#![forbid(unsafe_code)]

mod dump;
mod embedded;
mod error;
mod etcd;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod limits;
mod memory;
pub mod record;
mod sealed;
mod shared;
mod state;
mod transaction;

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub use dump::{DumpError, IMPORT_KEY, export, import};
pub use embedded::{Embedded, EmbeddedOptions, OpenError};
pub use error::StoreError;
pub use etcd::{Etcd, EtcdOptions, EtcdTls};
pub use memory::Memory;
pub use sealed::{KeyFileError, Sealed, StoreKey, UnsealError, rotate_store_key};
pub use transaction::{Condition, Transaction, Write};

/// A point in the life of a store. Later is greater; 0 is before all.
pub type Revision = u64;

/// The name of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub i64);

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, for example `instance/0192…`.
    pub key: String,
    /// What is kept under it.
    pub value: Bytes,
    /// When the key came to be.
    pub created: Revision,
    /// When the value was last written.
    pub changed: Revision,
    /// What it goes with.
    pub lease: Option<LeaseId>,
}

/// Entries in the order of their keys, all as they were at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// The revision that all of them are of. To follow what happens next,
    /// watch from here.
    pub revision: Revision,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A value was written.
    Put(Entry),
    /// A key is gone.
    Deleted { key: String },
}

impl Change {
    /// The key it is about.
    pub fn key(&self) -> &str {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Deleted { key } => key,
        }
    }
}

/// What one transaction did to what is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    pub revision: Revision,
    /// In the order of their keys.
    pub changes: Vec<Change>,
}

/// Changes as they come. It ends with an error, never in silence: the watcher
/// lists again and goes on from there.
pub type Watch = BoxStream<'static, Result<Changes, StoreError>>;

/// Keeps records.
///
/// All methods may be called from many tasks at once. A future that is
/// dropped may or may not have had its effect, as if the connection had been
/// lost.
pub trait Store: Send + Sync + 'static {
    /// One entry, if it is there.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>>;

    /// Every entry whose key begins with `prefix`.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>>;

    /// All writes, if all conditions hold. The answer is the revision they
    /// have, when they are on disk. [`StoreError::Conflict`] names the
    /// condition that did not hold; then nothing was written. Not idempotent by
    /// itself: after [`StoreError::Unavailable`] the caller looks.
    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>>;

    /// Every change after the revision `after` to keys that begin with
    /// `prefix`. [`StoreError::Compacted`] when the store does not remember
    /// that far back, or when it never had that revision: list, and watch
    /// from the listing's revision.
    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>>;

    /// A lease that ends `ttl` after it was last kept alive, or up to a few
    /// seconds later: etcd counts in whole seconds. After a restart of the
    /// store it has its whole time again.
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>>;

    /// Begins the time of a lease again. [`StoreError::NoSuchLease`] when it
    /// has ended.
    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Ends a lease and deletes its keys. Idempotent.
    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Removes what was overwritten or deleted so far from where the engine
    /// keeps it, as far as it can. Watches of a revision before may find it
    /// compacted. Idempotent, and slow: it may write everything again.
    fn erase_overwritten(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
