//! What was answered to a request that may come twice. Whoever handles it
//! first claims its key, and leaves the answer there; whoever comes later with
//! the same request gets that answer, for a day. It is in the store, so it
//! holds across restarts and servers.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use strata_store::{LeaseId, Revision, StoreError, Transaction};
use strata_types::Result;
use tokio::sync::Mutex;

use super::follow::public;
use super::record::{decode, encode};
use super::{Core, keys, now_ms};

/// How long an answer is kept at least.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Keys that are claimed within so long go together: one lease for all.
const SHARED: Duration = Duration::from_secs(3600);
/// A claim without an answer is given up after so long: its server ended.
const ABANDONED_MS: i64 = 60_000;
/// The largest answer that is kept. A record holds less.
const LARGEST: usize = 768 * 1024;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Of the request, all of it.
    fingerprint: String,
    at_ms: i64,
    #[serde(default)]
    given: Option<Given>,
}

/// The lease that new keys go with.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Option<(Instant, LeaseId)>>);

/// A key that was claimed.
#[derive(Debug)]
pub(crate) struct Claim {
    key: String,
    fingerprint: String,
    revision: Revision,
    lease: LeaseId,
}

/// What comes of wanting a key.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// The request is to be handled, and the answer left.
    Mine(Claim),
    /// It was handled; this was the answer.
    Answered(Given),
    /// It is being handled.
    Busy,
    /// The key was used for another request.
    Other,
}

impl Core {
    /// Claims a key of a caller for a request.
    pub(crate) async fn claim(
        &self,
        caller: &str,
        key: &str,
        fingerprint: &str,
    ) -> Result<Claimed> {
        let key = keys::idempotency(caller, key);
        let found = self.0.store.get(&key).await.map_err(public)?;
        let free = Transaction::new();
        let free = match found {
            None => free.if_absent(&*key),
            Some(entry) => {
                let record: Record = decode(&key, &entry.value)?;
                match record.given {
                    _ if record.fingerprint != fingerprint => return Ok(Claimed::Other),
                    Some(given) => return Ok(Claimed::Answered(given)),
                    None if now_ms() - record.at_ms < ABANDONED_MS => return Ok(Claimed::Busy),
                    None => free.if_unchanged(&*key, entry.changed),
                }
            }
        };
        let record = encode(&Record {
            fingerprint: fingerprint.to_owned(),
            at_ms: now_ms(),
            given: None,
        })?;
        let lease = self.answers_lease().await?;
        let claim = free.put_with(&*key, record, Some(lease));
        match self.0.store.commit(claim).await {
            Ok(revision) => Ok(Claimed::Mine(Claim {
                key,
                fingerprint: fingerprint.to_owned(),
                revision,
                lease,
            })),
            Err(StoreError::Conflict { .. }) => Ok(Claimed::Busy),
            Err(error) => {
                // The lease may be gone; the next gets another.
                *self.0.answers.0.lock().await = None;
                Err(public(error))
            }
        }
    }

    /// Leaves the answer; or frees the key, where there is none to keep.
    pub(crate) async fn settle_claim(&self, claim: Claim, given: Option<Given>) -> Result<()> {
        let write = Transaction::new().if_unchanged(&*claim.key, claim.revision);
        let write = match given.filter(|given| given.body.len() <= LARGEST) {
            None => write.delete(&*claim.key),
            given => {
                let record = encode(&Record {
                    fingerprint: claim.fingerprint,
                    at_ms: now_ms(),
                    given,
                })?;
                write.put_with(&*claim.key, record, Some(claim.lease))
            }
        };
        match self.0.store.commit(write).await {
            // It took so long that another took the claim for abandoned.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(public(error)),
        }
    }

    async fn answers_lease(&self) -> Result<LeaseId> {
        let mut shared = self.0.answers.0.lock().await;
        match *shared {
            Some((since, lease)) if since.elapsed() < SHARED => Ok(lease),
            _ => {
                let lease = self.0.store.grant(KEPT + SHARED).await.map_err(public)?;
                *shared = Some((Instant::now(), lease));
                Ok(lease)
            }
        }
    }
}
