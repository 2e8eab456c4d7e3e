//! What stands between the engine and the world for the length of one
//! operation: whether it is cancelled, and the first thing that failed.
//!
//! The engine skips files that it cannot read and reports it in a log. A backup
//! that lacks a file is not one: whatever fails is noted here, and from then on
//! nothing is written any more, least of all the snapshot.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustic_core::RusticError;
use tokio_util::sync::CancellationToken;

use crate::error::{BackupError, Result};
use crate::rate_limiter::RateLimiter;

#[derive(Debug)]
pub(crate) struct Gate {
    cancel: CancellationToken,
    pub(crate) pace: RateLimiter,
    shut: AtomicBool,
    first: Mutex<Option<BackupError>>,
    read: Mutex<Option<BackupError>>,
}

impl Gate {
    pub(crate) fn new(cancel: CancellationToken, bytes_per_second: Option<u64>) -> Self {
        Self {
            pace: RateLimiter::new(bytes_per_second, cancel.clone()),
            cancel,
            shut: AtomicBool::new(false),
            first: Mutex::new(None),
            read: Mutex::new(None),
        }
    }

    /// Whether work goes on: nothing failed and no stop was requested.
    pub(crate) fn is_open(&self) -> bool {
        !self.shut.load(Ordering::Acquire) && !self.cancel.is_cancelled()
    }

    /// The same for callers that can return why.
    pub(crate) fn pass(&self) -> Result<()> {
        if self.cancel.is_cancelled() || self.shut.load(Ordering::Acquire) {
            return Err(BackupError::Cancelled);
        }
        Ok(())
    }

    /// Notes what failed. Only the first counts; the rest follows from it.
    pub(crate) fn fail(&self, error: BackupError) {
        self.shut.store(true, Ordering::Release);
        let mut first = lock(&self.first);
        if first.is_none() && !matches!(error, BackupError::Cancelled) {
            *first = Some(error);
        }
    }

    /// Notes a failed read. It is no failure yet: the engine can do without
    /// some of what it reads.
    pub(crate) fn read_failed(&self, error: BackupError) {
        *lock(&self.read) = Some(error);
    }

    /// What to return to the caller for a failure of the engine.
    pub(crate) fn explain(&self, doing: &'static str, cause: Box<RusticError>) -> BackupError {
        if let Some(error) = lock(&self.first).take() {
            return error;
        }
        if self.cancel.is_cancelled() {
            return BackupError::Cancelled;
        }
        match lock(&self.read).take() {
            Some(error) => error,
            None => BackupError::Engine { doing, cause },
        }
    }

    /// Whether all went well, for where the engine reports that it did.
    pub(crate) fn settle(&self) -> Result<()> {
        if let Some(error) = lock(&self.first).take() {
            return Err(error);
        }
        self.pass()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
