//! The keys of a sealed store.
//!
//! Values are sealed with a data key. Data keys are kept in the store itself,
//! wrapped with the store key, which is in a file of its own: a reader of the
//! store alone has nothing.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::envelope::{KEY, NotOpened, NotSealed, SealingKey, key_id};

const PREFIX: &str = "strata-store-key-1 ";
/// No key file is longer.
const MAX_FILE: u64 = 4096;

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read or written.
    #[error("the store key {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// It holds something else.
    #[error("{} is not a store key", path.display())]
    NotAKey { path: PathBuf },
    /// Others can read it.
    #[error(
        "the store key {} can be read by others (mode {mode:o}): chmod 600 it",
        path.display()
    )]
    TooOpen { path: PathBuf, mode: u32 },
    /// There are no random numbers.
    #[error("no store key can be made: the host has no random numbers")]
    NoRandomness,
}

/// The key that wraps data keys, from its file. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreKey([u8; KEY]);

impl std::fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreKey({})", self.id())
    }
}

impl StoreKey {
    /// A new one.
    ///
    /// # Errors
    /// When there are no random numbers.
    pub fn generate() -> Result<Self, KeyFileError> {
        random().map(Self).ok_or(KeyFileError::NoRandomness)
    }

    /// Reads a key file; none if there is no such file.
    ///
    /// # Errors
    /// When it cannot be read, is no key file, or is open to others.
    pub fn read(path: &Path) -> Result<Option<Self>, KeyFileError> {
        let io = |source| KeyFileError::Io {
            path: path.to_owned(),
            source,
        };
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(io)?,
        };
        let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = path.to_owned();
            return Err(KeyFileError::TooOpen { path, mode });
        }
        let mut text = String::new();
        let mut limited = io::Read::take(file, MAX_FILE);
        io::Read::read_to_string(&mut limited, &mut text).map_err(io)?;
        let bytes = text.trim().strip_prefix(PREFIX);
        let bytes = bytes.and_then(|it| BASE64_STANDARD.decode(it).ok());
        let key = bytes.and_then(|it| it.try_into().ok());
        let key = key.ok_or_else(|| KeyFileError::NotAKey {
            path: path.to_owned(),
        })?;
        Ok(Some(Self(key)))
    }

    /// Writes it to a new file for its owner alone; it is on disk when this
    /// returns.
    ///
    /// # Errors
    /// When there is such a file, or it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KeyFileError> {
        let write = || {
            let mut part = path.as_os_str().to_owned();
            part.push(".part");
            let part = PathBuf::from(part);
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&part)?;
            writeln!(file, "{PREFIX}{}", BASE64_STANDARD.encode(self.0))?;
            file.sync_all()?;
            // A link, unlike a rename, never replaces a key that is in use.
            fs::hard_link(&part, path)?;
            fs::remove_file(&part)?;
            let dir = path.parent().filter(|it| !it.as_os_str().is_empty());
            fs::File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(|source| KeyFileError::Io {
            path: path.to_owned(),
            source,
        })
    }

    /// What identifies it without revealing it.
    #[must_use]
    pub fn id(&self) -> String {
        let digest = Sha256::new()
            .chain_update(b"strata store key")
            .chain_update(self.0);
        digest.finalize()[..8]
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect()
    }
}

fn random() -> Option<[u8; KEY]> {
    let mut bytes = [0; KEY];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// The record of the data keys, as it is in the store.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyRecord {
    version: u32,
    /// The ring, sealed with each store key that opens it, by the key's id.
    /// There are two while a store key is replaced.
    wrapped: BTreeMap<String, String>,
}

const RECORD_VERSION: u32 = 1;
/// What the ring is sealed as.
const RING: &str = "store/keys";

/// Why the record of the data keys does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoKeys {
    #[error("the store was sealed by a newer release (keys of version {0})")]
    Newer(u32),
    #[error("the store is sealed with the store key {known}, not with {given}")]
    OtherKey { known: String, given: String },
    #[error("the keys of the store are damaged")]
    Damaged,
    #[error(transparent)]
    NotSealed(#[from] NotSealed),
}

/// The data keys of a store.
#[derive(Debug)]
pub(super) struct Ring {
    plain: RingPlain,
    keys: BTreeMap<u32, SealingKey>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RingPlain {
    current: u32,
    keys: BTreeMap<u32, String>,
    /// Everything in the store is sealed: what is not was put there by a writer
    /// without the keys.
    #[serde(default)]
    complete: bool,
}

impl std::fmt::Debug for RingPlain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "(keys, {} of {})", self.current, self.keys.len())
    }
}

impl Ring {
    /// A ring with one new key.
    pub(super) fn generate() -> Result<Self, NoKeys> {
        let key = BASE64_STANDARD.encode(random().ok_or(NotSealed)?);
        Self::of(RingPlain {
            current: 1,
            keys: BTreeMap::from([(1, key)]),
            complete: false,
        })
    }

    fn of(plain: RingPlain) -> Result<Self, NoKeys> {
        let mut keys = BTreeMap::new();
        for (id, text) in &plain.keys {
            let bytes = BASE64_STANDARD.decode(text).map_err(|_| NoKeys::Damaged)?;
            let bytes = bytes.try_into().map_err(|_| NoKeys::Damaged)?;
            keys.insert(*id, SealingKey::new(&bytes)?);
        }
        match keys.contains_key(&plain.current) {
            true => Ok(Self { plain, keys }),
            false => Err(NoKeys::Damaged),
        }
    }

    /// The same, of a store in which everything is sealed.
    pub(super) fn completed(&self) -> Result<Self, NoKeys> {
        Self::of(RingPlain {
            complete: true,
            ..self.plain.clone()
        })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.plain.complete
    }

    /// As a record that each of these store keys opens.
    pub(super) fn wrap(&self, with: &[&StoreKey]) -> Result<Vec<u8>, NoKeys> {
        let plain = serde_json::to_vec(&self.plain).map_err(|_| NoKeys::Damaged)?;
        let mut record = KeyRecord {
            version: RECORD_VERSION,
            ..KeyRecord::default()
        };
        for key in with {
            let sealed = SealingKey::new(&key.0)?.seal(0, RING, &plain)?;
            record
                .wrapped
                .insert(key.id(), BASE64_STANDARD.encode(sealed));
        }
        serde_json::to_vec(&record).map_err(|_| NoKeys::Damaged)
    }

    /// Opens a record with a store key.
    pub(super) fn unwrap(record: &[u8], with: &StoreKey) -> Result<Self, NoKeys> {
        let record: KeyRecord = serde_json::from_slice(record).map_err(|_| NoKeys::Damaged)?;
        if record.version != RECORD_VERSION {
            return Err(NoKeys::Newer(record.version));
        }
        let Some(sealed) = record.wrapped.get(&with.id()) else {
            let known = record.wrapped.into_keys().collect::<Vec<_>>().join(", ");
            let given = with.id();
            return Err(NoKeys::OtherKey { known, given });
        };
        let sealed = BASE64_STANDARD
            .decode(sealed)
            .map_err(|_| NoKeys::Damaged)?;
        let plain = SealingKey::new(&with.0)?.open(0, RING, &sealed);
        let plain = plain.map_err(|_| NoKeys::Damaged)?;
        Self::of(serde_json::from_slice(&plain).map_err(|_| NoKeys::Damaged)?)
    }

    pub(super) fn seal(&self, name: &str, value: &[u8]) -> Result<Bytes, NotSealed> {
        let id = self.plain.current;
        let key = self.keys.get(&id).ok_or(NotSealed)?;
        key.seal(id, name, value)
    }

    /// Opens a value. One that was never sealed is as it is, until everything
    /// in the store is.
    pub(super) fn open(&self, name: &str, value: Bytes) -> Result<Bytes, NotOpened> {
        let Some(id) = key_id(&value) else {
            return match self.plain.complete {
                true => Err(NotOpened::Plain),
                false => Ok(value),
            };
        };
        let key = self.keys.get(&id).ok_or(NotOpened::UnknownKey(id))?;
        key.open(id, name, &value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_for_its_owner_and_read_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.key");
        assert!(StoreKey::read(&path).unwrap().is_none());
        let key = StoreKey::generate().unwrap();
        key.write(&path).unwrap();
        assert_eq!(StoreKey::read(&path).unwrap(), Some(key.clone()));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(key.write(&path).is_err(), "a key is never replaced");
        assert_eq!(StoreKey::read(&path).unwrap(), Some(key.clone()));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let open = StoreKey::read(&path).unwrap_err();
        assert!(
            matches!(open, KeyFileError::TooOpen { mode: 0o640, .. }),
            "{open}"
        );
        for text in ["", "strata-store-key-1", "strata-store-key-1 AAAA", "\u{0}"] {
            let path = dir.path().join("other");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let wrong = StoreKey::read(&path).unwrap_err();
            assert!(matches!(wrong, KeyFileError::NotAKey { .. }), "{wrong}");
        }
        let shown = format!("{key:?}");
        assert_eq!(shown, format!("StoreKey({})", key.id()));
    }

    #[test]
    fn a_ring_opens_with_the_keys_that_wrapped_it() {
        let (one, two, three) = (
            StoreKey::generate().unwrap(),
            StoreKey::generate().unwrap(),
            StoreKey::generate().unwrap(),
        );
        let ring = Ring::generate().unwrap();
        let sealed = ring.seal("a", b"value").unwrap();
        let record = ring.wrap(&[&one, &two]).unwrap();
        for key in [&one, &two] {
            let again = Ring::unwrap(&record, key).unwrap();
            assert_eq!(again.open("a", sealed.clone()).unwrap(), "value");
            assert_eq!(again.open("a", "{}".into()).unwrap(), "{}");
            let complete = again.completed().unwrap();
            assert_eq!(complete.open("a", "{}".into()), Err(NotOpened::Plain));
        }
        let other = Ring::unwrap(&record, &three).unwrap_err();
        assert!(matches!(other, NoKeys::OtherKey { .. }), "{other}");
        assert_eq!(Ring::unwrap(b"{}", &one).unwrap_err(), NoKeys::Damaged);
        let newer = br#"{"version":2,"wrapped":{}}"#;
        assert_eq!(Ring::unwrap(newer, &one).unwrap_err(), NoKeys::Newer(2));
        let other = Ring::generate().unwrap();
        assert_eq!(other.open("a", sealed), Err(NotOpened::Forged));
    }
}
