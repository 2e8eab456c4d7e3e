//! The master key of a repository, once it was opened.
//!
//! The format derives a key from the password with scrypt, which takes 128 MiB
//! and half a second on purpose, for every open. A daemon opens its repository
//! for every listing and every step of an operation, and holds the password in
//! memory anyway: it derives once.
//!
//! The key is good only while the key files of the repository are those that it
//! came from. When one is added, changed or removed, the password decides again:
//! otherwise a daemon would go on storing backups that no password opens.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustic_core::repofile::MasterKey;

/// Name and size of every key file.
pub(crate) type KeyFiles = Vec<(String, u64)>;

/// A master key, if one is known, and the key files at that time. Never printed.
#[derive(Default)]
pub(crate) struct KeyCache(Mutex<Option<(KeyFiles, MasterKey)>>);

impl KeyCache {
    fn lock(&self) -> MutexGuard<'_, Option<(KeyFiles, MasterKey)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key, if it is of these files.
    pub(crate) fn get(&self, files: &KeyFiles) -> Option<MasterKey> {
        let cached = self.lock();
        let (of, key) = cached.as_ref()?;
        (of == files).then(|| key.clone())
    }

    pub(crate) fn set(&self, files: KeyFiles, key: MasterKey) {
        *self.lock() = Some((files, key));
    }
}

impl fmt::Debug for KeyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyCache")
    }
}
