//! Who is at work in the repository, as restic tells it: a small encrypted
//! file in `locks/`, written anew every few minutes.
//!
//! Backups, restores and looks share the repository; a prune has it alone.
//! The engine itself takes no locks, but others do heed them: without ours a
//! `restic prune` would remove the packs of a backup that is under way.
//!
//! A lock is left behind by who was killed. It no longer counts when its
//! process is gone from this host, or when it has not been written anew for
//! half an hour.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use rustic_core::repofile::MasterKey;
use serde::{Deserialize, Serialize};

use crate::cipher::{Cipher, name_of};
use crate::error::{BackupError, Result};
use crate::pace::Pace;
use crate::store::{Place, Store};

/// How often a lock is written anew.
const REFRESH: Duration = Duration::from_secs(5 * 60);
/// A lock this old has no holder.
const STALE: SignedDuration = SignedDuration::from_secs(30 * 60);
/// No claim is longer.
const MOST_TEXT: usize = 64 << 10;

/// What a lock file says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Claim {
    time: Timestamp,
    exclusive: bool,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
}

impl Claim {
    fn ours(exclusive: bool) -> Self {
        Self {
            time: Timestamp::now(),
            exclusive,
            hostname: hostname(),
            username: "strata".to_owned(),
            pid: std::process::id(),
            uid: Some(rustix::process::getuid().as_raw()),
            gid: Some(rustix::process::getgid().as_raw()),
        }
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        let dead = || {
            let process = format!("/proc/{}", self.pid);
            self.hostname == hostname() && !std::path::Path::new(&process).exists()
        };
        now.duration_since(self.time) > STALE || dead()
    }

    fn holder(&self) -> String {
        let how = if self.exclusive { ", alone" } else { "" };
        format!(
            "{} on {} (process {}, since {:.0}{how})",
            if self.username.is_empty() {
                "somebody"
            } else {
                &self.username
            },
            self.hostname,
            self.pid,
            self.time
        )
    }
}

/// A claim on the repository, given back when it is dropped.
pub(crate) struct Lock {
    keeper: Arc<Keeper>,
    thread: Option<JoinHandle<()>>,
}

struct Keeper {
    store: Arc<dyn Store>,
    key: Cipher,
    exclusive: bool,
    /// The file that holds the claim now; none when it was given back.
    name: Mutex<Option<String>>,
    changed: Condvar,
}

impl Lock {
    /// Claims the repository, for oneself alone or shared with others who
    /// share it.
    pub(crate) fn take(store: Arc<dyn Store>, key: &MasterKey, exclusive: bool) -> Result<Self> {
        let key = Cipher::new(key);
        look_for_others(&*store, &key, exclusive, None)?;
        let name = write(&*store, &key, exclusive)?;
        // Two who looked at the same time have both written by now, and at
        // least one of them sees the other.
        if let Err(error) = look_for_others(&*store, &key, exclusive, Some(&name)) {
            let _ = store.remove(Place::Locks, &name);
            return Err(error);
        }
        let keeper = Arc::new(Keeper {
            store,
            key,
            exclusive,
            name: Mutex::new(Some(name)),
            changed: Condvar::new(),
        });
        let kept = keeper.clone();
        let thread = std::thread::Builder::new()
            .name("backup-lock".to_owned())
            .spawn(move || kept.keep());
        Ok(Self {
            keeper,
            thread: thread.ok(),
        })
    }

    /// Claims it if it can be written to at all: who only reads may do so
    /// from a store that is read-only.
    pub(crate) fn for_reading(store: Arc<dyn Store>, key: &MasterKey) -> Result<Option<Self>> {
        match Self::take(store, key, false) {
            Ok(lock) => Ok(Some(lock)),
            Err(error @ (BackupError::Locked { .. } | BackupError::Unreachable { .. })) => {
                Err(error)
            }
            Err(error) => {
                tracing::debug!(error = %strata_types::chain(&error), "reading without a lock");
                Ok(None)
            }
        }
    }
}

impl Keeper {
    fn keep(&self) {
        let mut name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (held, _) = self
                .changed
                .wait_timeout_while(name, REFRESH, |name| name.is_some())
                .unwrap_or_else(PoisonError::into_inner);
            name = held;
            let Some(old) = name.clone() else { return };
            match write(&*self.store, &self.key, self.exclusive) {
                Ok(new) => {
                    *name = Some(new);
                    let _ = self.store.remove(Place::Locks, &old);
                }
                // The old one still counts for a while.
                Err(error) => {
                    tracing::warn!(error = %strata_types::chain(&error), "a lock was not renewed");
                }
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let held = self
            .keeper
            .name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.keeper.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(name) = held
            && let Err(error) = self.keeper.store.remove(Place::Locks, &name)
        {
            tracing::warn!(error = %strata_types::chain(&error), "a lock was left behind");
        }
    }
}

/// Fails if another's claim is in the way of ours. Those of the dead are
/// removed.
fn look_for_others(
    store: &dyn Store,
    key: &Cipher,
    exclusive: bool,
    except: Option<&str>,
) -> Result<()> {
    let now = Timestamp::now();
    for file in store.list(Place::Locks)? {
        if except == Some(file.name.as_str()) {
            continue;
        }
        let bytes = match store.read(Place::Locks, &file.name) {
            Err(BackupError::Missing { .. }) => continue,
            bytes => bytes?,
        };
        let Some(claim) = Claim::open(key, &bytes) else {
            return Err(BackupError::Locked {
                by: format!("a lock that cannot be read ({})", file.name),
            });
        };
        if claim.is_stale(now) {
            store.remove(Place::Locks, &file.name)?;
        } else if exclusive || claim.exclusive {
            return Err(BackupError::Locked { by: claim.holder() });
        }
    }
    Ok(())
}

fn write(store: &dyn Store, key: &Cipher, exclusive: bool) -> Result<String> {
    let bytes = Claim::ours(exclusive).seal(key)?;
    let name = name_of(&bytes);
    store.write(Place::Locks, &name, &[bytes], &Pace::free())?;
    Ok(name)
}

impl Claim {
    fn seal(&self, key: &Cipher) -> Result<Bytes> {
        let bug = |_| BackupError::Panicked { doing: "locking" };
        let text = serde_json::to_vec(self).map_err(bug)?;
        key.seal(&text)
    }

    fn open(key: &Cipher, bytes: &[u8]) -> Option<Self> {
        let text = key.open(bytes)?;
        match text.split_first()? {
            // Others compress even this.
            (2, packed) => {
                let text = zstd::bulk::decompress(packed, MOST_TEXT).ok()?;
                serde_json::from_slice(&text).ok()
            }
            _ => serde_json::from_slice(&text).ok(),
        }
    }
}

fn hostname() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}
