//! How old what this server answers may be.
//!
//! Tables follow the store by a watch. A server that is cut off from the store
//! goes on with the tables it has, and neither it nor its callers notice: so
//! it counts since when the store was last known to have nothing that the
//! tables have not.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use strata_store::Transaction;
use strata_types::{Error, Result};
use tokio::time::Instant;

use super::store_watch::public;
use super::{Core, keys};

/// Reads are refused when the tables may be older than this.
pub const MAX_STALENESS: Duration = Duration::from_secs(10);

/// How often they are confirmed at least, where other servers write too.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(3);

/// When the tables were last known to be as the store is.
#[derive(Debug)]
pub(crate) struct Freshness(Mutex<Instant>);

impl Default for Freshness {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Freshness {
    /// The store had nothing else at this time.
    pub(crate) fn confirm(&self, at: Instant) {
        let mut confirmed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *confirmed = at.max(*confirmed);
    }

    fn age(&self) -> Duration {
        let confirmed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        confirmed.elapsed()
    }
}

impl Core {
    /// The revision that what is read here is of.
    pub fn revision(&self) -> strata_store::Revision {
        *self.0.applied.borrow()
    }

    /// How old what is read here may be. Nothing, where no other server writes.
    pub fn staleness(&self) -> Duration {
        match self.settings().alone {
            true => Duration::ZERO,
            false => self.0.freshness.age(),
        }
    }

    /// Refuses to read what may be older than [`MAX_STALENESS`].
    pub fn check_fresh(&self) -> Result<()> {
        let age = self.staleness();
        if age <= MAX_STALENESS {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "this server has not reached the store for {} s: what it knows may be outdated",
            age.as_secs()
        ))
        .with_hint("use another server; the REST API answers with what it knows to ?stale=ok"))
    }

    /// Waits until what is read here is at least as new as this call. It costs
    /// a write: what comes back by the watch comes after all that was written
    /// before.
    pub async fn catch_up(&self) -> Result<()> {
        if self.settings().alone {
            return Ok(());
        }
        let mark = Transaction::new().put(keys::CATCH_UP, Vec::new());
        self.commit(mark).await.map(drop).map_err(public)
    }

    /// Has the tables confirmed while nothing else is written here, until the
    /// end of this server.
    pub(super) async fn stay_fresh(self) {
        loop {
            tokio::time::sleep(CONFIRM_INTERVAL).await;
            if self.staleness() < CONFIRM_INTERVAL {
                continue;
            }
            if let Err(error) = self.catch_up().await {
                tracing::debug!(%error, "tables not confirmed to be as the store is");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use strata_store::{Memory, Store as _};
    use strata_types::ErrorKind;

    use super::super::{CoreSettings, Range};
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reads_are_refused_once_the_store_is_not_reached_for_long() {
        let store = Memory::new();
        let settings = CoreSettings {
            range: Range::DEFAULT,
            lease: Duration::from_secs(60),
            placement: Default::default(),
            overcommit: Default::default(),
            alone: false,
            bounds: Default::default(),
            events_file: None,
            server_port: None,
        };
        let shutdown = CancellationToken::new();
        let core = Core::open(Arc::new(store.clone()), settings, shutdown.clone()).await;
        let core = core.unwrap();
        core.check_fresh().unwrap();
        // Quiet for long, and confirmed all the while.
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            core.check_fresh().unwrap();
        }
        store.hold();
        tokio::time::sleep(MAX_STALENESS + CONFIRM_INTERVAL).await;
        let refused = core.check_fresh().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        store.release();
        core.catch_up().await.unwrap();
        core.check_fresh().unwrap();
        // What another wrote before is there after.
        let record = r#"{"name":"blue","createdAtMs":1}"#;
        let put = Transaction::new().put("project/blue", record);
        let revision = store.commit(put).await.unwrap();
        core.catch_up().await.unwrap();
        assert!(core.revision() >= revision);
        assert!(core.projects().get(&"blue".parse().unwrap()).is_ok());
        shutdown.cancel();
    }
}
