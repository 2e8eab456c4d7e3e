//! A store whose values are sealed: a reader of its file, its disk or its etcd
//! finds names of records and nothing of what is in them.
//!
//! It wraps any engine. Keys stay in the clear, since engines order and watch
//! them; no secret belongs into a key.

mod envelope;
mod keys;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};

use crate::{
    Change, Changes, Entry, IMPORT_KEY, LeaseId, Listing, Revision, Store, StoreError, Transaction,
    Watch, Write, limits,
};

pub(crate) use envelope::plain_length;
pub use keys::{KeyFileError, StoreKey};
use keys::{NoKeys, Ring};

/// Where the wrapped data keys are. Not seen through a sealed store.
const KEYS: &str = "store/keys";

/// Why a store is not opened.
#[derive(Debug, thiserror::Error)]
pub enum UnsealError {
    /// The key file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The store is sealed and there is no key file.
    #[error("the store is sealed, and its key {path} is not there")]
    KeyMissing {
        /// Where it was looked for.
        path: String,
    },
    /// The key does not open this store.
    #[error("{0}")]
    WrongKey(String),
    /// It is not whole; nothing is done to it.
    #[error("an import into this store was not finished")]
    ImportUnfinished,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<NoKeys> for UnsealError {
    fn from(error: NoKeys) -> Self {
        Self::WrongKey(error.to_string())
    }
}

/// A store whose values are sealed.
#[derive(Clone)]
pub struct Sealed {
    inner: Arc<dyn Store>,
    ring: Arc<Ring>,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealed").finish_non_exhaustive()
    }
}

impl Sealed {
    /// Opens a store with the key in a file. A store that was never sealed
    /// gets keys, and the file, if it is not there, a new store key; then
    /// everything in it is sealed. Cut short, the next call goes on with it.
    ///
    /// # Errors
    /// When the key is missing, unusable or another's, or the store fails.
    pub async fn open(inner: Arc<dyn Store>, key_file: &Path) -> Result<Self, UnsealError> {
        if inner.get(IMPORT_KEY).await?.is_some() {
            return Err(UnsealError::ImportUnfinished);
        }
        let key = StoreKey::read(key_file)?;
        let ring = match (inner.get(KEYS).await?, key) {
            (Some(record), Some(key)) => Ring::unwrap(&record.value, &key)?,
            (Some(_), None) => {
                let path = key_file.display().to_string();
                return Err(UnsealError::KeyMissing { path });
            }
            (None, key) => begin(inner.as_ref(), key_file, key).await?,
        };
        let mut sealed = Self {
            inner,
            ring: Arc::new(ring),
        };
        if !sealed.ring.is_complete() {
            let count = sealed.seal_all().await?;
            // Before it counts as sealed, so that a kill cannot leave behind
            // what the values were.
            if !sealed.list("").await?.entries.is_empty() {
                sealed.inner.erase_overwritten().await?;
            }
            sealed.complete(key_file).await?;
            tracing::info!(records = count, "store sealed");
        }
        Ok(sealed)
    }

    /// The engine, with everything as it is kept there.
    #[must_use]
    pub fn engine(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    /// Seals every value that is not. The answer is how many there were.
    async fn seal_all(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        for entry in self.inner.list("").await?.entries {
            let ours = entry.key == KEYS || envelope::key_id(&entry.value).is_some();
            if ours {
                continue;
            }
            let value = self.seal(&entry.key, &entry.value)?;
            let put = Transaction::new()
                .if_unchanged(&*entry.key, entry.changed)
                .put_with(&*entry.key, value, entry.lease);
            match self.inner.commit(put).await {
                Ok(_) => count += 1,
                // Written meanwhile, and so by a writer that seals.
                Err(StoreError::Conflict { .. } | StoreError::NoSuchLease(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// From now on, what is not sealed is not believed.
    async fn complete(&mut self, key_file: &Path) -> Result<(), UnsealError> {
        let Some(record) = self.inner.get(KEYS).await? else {
            return Err(StoreError::Broken("its keys are gone".to_owned()).into());
        };
        let key = StoreKey::read(key_file)?.ok_or_else(|| UnsealError::KeyMissing {
            path: key_file.display().to_string(),
        })?;
        let ring = Ring::unwrap(&record.value, &key)?.completed()?;
        let put = Transaction::new()
            .if_unchanged(KEYS, record.changed)
            .put(KEYS, ring.wrap(&[&key])?);
        match self.inner.commit(put).await {
            // Another server did the same.
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.ring = Arc::new(ring);
        Ok(())
    }

    fn seal(&self, name: &str, value: &[u8]) -> Result<Bytes, StoreError> {
        let sealed = self.ring.seal(name, value);
        sealed.map_err(|error| StoreError::Broken(format!("{name}: {error}")))
    }

    fn unseal(&self, mut entry: Entry) -> Result<Entry, StoreError> {
        let opened = self.ring.open(&entry.key, entry.value);
        entry.value =
            opened.map_err(|error| StoreError::Broken(format!("{}: {error}", entry.key)))?;
        Ok(entry)
    }

    fn unseal_changes(&self, changes: Changes) -> Result<Changes, StoreError> {
        let seen = changes.changes.into_iter().filter(|it| it.key() != KEYS);
        let unseal = |change| match change {
            Change::Put(entry) => self.unseal(entry).map(Change::Put),
            deleted @ Change::Deleted { .. } => Ok(deleted),
        };
        Ok(Changes {
            revision: changes.revision,
            changes: seen.map(unseal).collect::<Result<_, _>>()?,
        })
    }
}

/// Gives a store its keys. The key file is there first: a store that cannot be
/// opened again is never made.
async fn begin(
    store: &dyn Store,
    key_file: &Path,
    key: Option<StoreKey>,
) -> Result<Ring, UnsealError> {
    let key = match key {
        Some(key) => key,
        None => {
            let key = StoreKey::generate()?;
            key.write(key_file)?;
            tracing::info!(file = %key_file.display(), key = key.id(), "store key created");
            key
        }
    };
    let ring = Ring::generate()?;
    let put = Transaction::new().if_absent(KEYS);
    match store.commit(put.put(KEYS, ring.wrap(&[&key])?)).await {
        Ok(_) => Ok(ring),
        // Another server was first.
        Err(StoreError::Conflict { .. }) => match store.get(KEYS).await? {
            Some(record) => Ok(Ring::unwrap(&record.value, &key)?),
            None => Err(StoreError::Broken("its keys are gone".to_owned()).into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Replaces the store key of a store that is not in use: a new file takes the
/// place of the old one. Data keys, and so the values, stay as they are. Cut
/// short at any point, the file that is there opens the store.
///
/// # Errors
/// When the present key does not open the store, or something fails.
pub async fn rotate_store_key(
    store: &dyn Store,
    key_file: &Path,
) -> Result<(String, String), UnsealError> {
    let missing = || UnsealError::KeyMissing {
        path: key_file.display().to_string(),
    };
    let old = StoreKey::read(key_file)?.ok_or_else(missing)?;
    let record = store.get(KEYS).await?.ok_or_else(|| {
        UnsealError::WrongKey("the store is not sealed yet: start the server once".to_owned())
    })?;
    let ring = Ring::unwrap(&record.value, &old)?;
    let new = StoreKey::generate()?;
    let next = key_file.with_extension("key.next");
    let replace = |error: std::io::Error| KeyFileError::Io {
        path: next.clone(),
        source: error,
    };
    match std::fs::remove_file(&next) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(replace(error).into());
        }
        _ => {}
    }
    new.write(&next)?;
    let both = ring.wrap(&[&old, &new])?;
    let put = Transaction::new().if_unchanged(KEYS, record.changed);
    let changed = store.commit(put.put(KEYS, both)).await?;
    std::fs::rename(&next, key_file).map_err(replace)?;
    let dir = key_file.parent().unwrap_or(Path::new("."));
    let synced = std::fs::File::open(dir).and_then(|it| it.sync_all());
    synced.map_err(replace)?;
    let put = Transaction::new().if_unchanged(KEYS, changed);
    store.commit(put.put(KEYS, ring.wrap(&[&new])?)).await?;
    Ok((old.id(), new.id()))
}

impl Store for Sealed {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        async move {
            let entry = self.inner.get(key).await?;
            let entry = entry.filter(|it| it.key != KEYS);
            entry.map(|it| self.unseal(it)).transpose()
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        async move {
            let Listing { entries, revision } = self.inner.list(prefix).await?;
            let entries = entries.into_iter().filter(|it| it.key != KEYS);
            let entries = entries
                .map(|it| self.unseal(it))
                .collect::<Result<_, _>>()?;
            Ok(Listing { entries, revision })
        }
        .boxed()
    }

    fn commit(&self, mut transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        async move {
            limits::check(&transaction)?;
            for write in &mut transaction.writes {
                if write.key() == KEYS {
                    let what = format!("{KEYS} belongs to the store itself");
                    return Err(StoreError::Invalid(what));
                }
                if let Write::Put { key, value, .. } = write {
                    *value = self.seal(key, value)?;
                }
            }
            self.inner.commit(transaction).await
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        async move {
            let watch = self.inner.watch(prefix, after).await?;
            let this = self.clone();
            let opened = watch.filter_map(move |changes| {
                let changes = changes.and_then(|it| this.unseal_changes(it));
                // What was about the keys alone is not seen here.
                let seen = match &changes {
                    Ok(it) => !it.changes.is_empty(),
                    Err(_) => true,
                };
                std::future::ready(seen.then_some(changes))
            });
            Ok(opened.boxed())
        }
        .boxed()
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

    fn erase_overwritten(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.erase_overwritten()
    }
}
