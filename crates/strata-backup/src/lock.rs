//! Which processes are at work in the repository, as restic records it: a small
//! encrypted file in `locks/`, written again every few minutes.
//!
//! Backups, restores and looks share the repository; a prune has it alone.
//! The engine itself takes no locks, but others do heed them: without ours a
//! `restic prune` would remove the packs of a backup that is under way.
//!
//! A process that was killed leaves its lock behind. It no longer counts when
//! its process is gone from this host, or when it has not been written again
//! for half an hour.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use rustic_core::repofile::MasterKey;
use serde::{Deserialize, Serialize};

use crate::cipher::{Cipher, name_of};
use crate::error::{BackupError, Result};
use crate::rate_limiter::RateLimiter;
use crate::store::{FileKind, Store};

/// How often a lock is written again.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// A lock this old has no holder.
const STALE_AGE: SignedDuration = SignedDuration::from_secs(30 * 60);
/// No claim is longer.
const MAX_LOCK_BYTES: usize = 64 << 10;

/// The content of a lock file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LockRecord {
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

impl LockRecord {
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
        now.duration_since(self.time) > STALE_AGE || dead()
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
    refresher: Arc<LockRefresher>,
    thread: Option<JoinHandle<()>>,
}

struct LockRefresher {
    store: Arc<dyn Store>,
    key: Cipher,
    exclusive: bool,
    /// The file that holds the claim now; none when it was given back.
    name: Mutex<Option<String>>,
    changed: Condvar,
}

impl Lock {
    /// Claims the repository, exclusively or shared with others that share it.
    pub(crate) fn take(store: Arc<dyn Store>, key: &MasterKey, exclusive: bool) -> Result<Self> {
        let key = Cipher::new(key);
        look_for_others(&*store, &key, exclusive, None)?;
        let name = write(&*store, &key, exclusive)?;
        // Two processes that checked at the same time have both written by now,
        // and at least one of them sees the other.
        if let Err(error) = look_for_others(&*store, &key, exclusive, Some(&name)) {
            let _ = store.remove(FileKind::Locks, &name);
            return Err(error);
        }
        let refresher = Arc::new(LockRefresher {
            store,
            key,
            exclusive,
            name: Mutex::new(Some(name)),
            changed: Condvar::new(),
        });
        let kept = refresher.clone();
        let thread = std::thread::Builder::new()
            .name("backup-lock".to_owned())
            .spawn(move || kept.keep());
        Ok(Self {
            refresher,
            thread: thread.ok(),
        })
    }

    /// Claims it if it can be written to at all: a reader may use a store that
    /// is read-only.
    pub(crate) fn for_reading(store: Arc<dyn Store>, key: &MasterKey) -> Result<Option<Self>> {
        match Self::take(store, key, false) {
            Ok(lock) => Ok(Some(lock)),
            Err(error @ (BackupError::Locked { .. } | BackupError::Unreachable { .. })) => {
                Err(error)
            }
            Err(error) => {
                tracing::debug!(error = %strata_types::chain(&error), "repository read without a lock");
                Ok(None)
            }
        }
    }
}

impl LockRefresher {
    fn keep(&self) {
        let mut name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (held, _) = self
                .changed
                .wait_timeout_while(name, REFRESH_INTERVAL, |name| name.is_some())
                .unwrap_or_else(PoisonError::into_inner);
            name = held;
            let Some(old) = name.clone() else { return };
            match write(&*self.store, &self.key, self.exclusive) {
                Ok(new) => {
                    *name = Some(new);
                    let _ = self.store.remove(FileKind::Locks, &old);
                }
                // The old one still counts for a while.
                Err(error) => {
                    tracing::warn!(error = %strata_types::chain(&error), "repository lock not renewed");
                }
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let held = self
            .refresher
            .name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.refresher.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(name) = held
            && let Err(error) = self.refresher.store.remove(FileKind::Locks, &name)
        {
            tracing::warn!(lock = name.to_string(), error = %strata_types::chain(&error), "repository lock not removed");
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
    for file in store.list(FileKind::Locks)? {
        if except == Some(file.name.as_str()) {
            continue;
        }
        let bytes = match store.read(FileKind::Locks, &file.name) {
            Err(BackupError::Missing { .. }) => continue,
            bytes => bytes?,
        };
        let Some(claim) = LockRecord::open(key, &bytes) else {
            return Err(BackupError::Locked {
                by: format!("a lock that cannot be read ({})", file.name),
            });
        };
        if claim.is_stale(now) {
            store.remove(FileKind::Locks, &file.name)?;
        } else if exclusive || claim.exclusive {
            return Err(BackupError::Locked { by: claim.holder() });
        }
    }
    Ok(())
}

fn write(store: &dyn Store, key: &Cipher, exclusive: bool) -> Result<String> {
    let bytes = LockRecord::ours(exclusive).seal(key)?;
    let name = name_of(&bytes);
    store.write(FileKind::Locks, &name, &[bytes], &RateLimiter::free())?;
    Ok(name)
}

impl LockRecord {
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
                let text = zstd::bulk::decompress(packed, MAX_LOCK_BYTES).ok()?;
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
