//! etcd, for more than one server.
//!
//! Used by the few calls of its interface that a store needs. What it
//! guarantees is what the trait requires, so little is added: keys get a
//! prefix, listings are put together from pages of one revision, watches are
//! grouped by revision and supervised, and a member that does not answer is
//! passed over.

mod entries;
mod lease;
mod members;
mod options;
mod records;
mod status;
mod tls;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::{Entry, LeaseId, Listing, Revision, Store, StoreError, Transaction, Watch, limits};
use entries::Prefix;
use members::Members;
pub use options::{EtcdOptions, EtcdTls};
use status::fault;

/// Keeps records in an etcd.
#[derive(Clone, Debug)]
pub struct Etcd(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    members: Members,
    prefix: Prefix,
    quiet: Duration,
}

impl Etcd {
    /// Connects to an etcd.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the options make no sense, and
    /// [`StoreError::Unavailable`] when no member answers.
    pub async fn connect(options: &EtcdOptions) -> Result<Self, StoreError> {
        let inner = Inner {
            members: Members::new(options)?,
            prefix: Prefix::new(&options.prefix),
            quiet: options.quiet,
        };
        let found = inner.members.look().await;
        found.map_err(|status| fault(&status))?;
        Ok(Self(Arc::new(inner)))
    }

    /// Has etcd compact what was before a revision, so that it does not grow
    /// forever. Watches from before it end.
    ///
    /// # Errors
    /// When no member answers.
    pub async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        records::compact(&self.0, revision).await
    }
}

impl Store for Etcd {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        async move {
            limits::check_key(key)?;
            records::get(&self.0, key).await
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        records::list(&self.0, prefix).boxed()
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        async move {
            limits::check(&transaction)?;
            records::commit(&self.0, transaction).await
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        async move {
            records::remembers(&self.0, after).await?;
            watch::begin(self.0.clone(), prefix, after).await
        }
        .boxed()
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        async move {
            limits::check_ttl(ttl)?;
            lease::grant(&self.0, ttl).await
        }
        .boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        lease::keep_alive(&self.0, lease).boxed()
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        lease::revoke(&self.0, lease).boxed()
    }

    /// Compacts the past. Pages that are free by then are only overwritten
    /// when etcd needs them, or by `etcdctl defrag` on each member.
    fn erase_overwritten(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let revision = records::list(&self.0, "store/keys").await?.revision;
            self.compact(revision).await
        }
        .boxed()
    }
}
