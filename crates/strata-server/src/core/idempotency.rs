//! What was answered to a request that may come twice. Whoever handles it
//! first claims its key, and leaves the answer there; whoever comes later with
//! the same request gets that answer, for a day. It is in the store, so it
//! holds across restarts and servers.
//!
//! A server may die at any moment of it. What creates something says so in the
//! same transaction (`Core::commit_effect`): on the condition that the key is
//! still claimed by this request, and with a note of what was created. So a
//! claim without a note had no effect, and may be taken over; one with a note
//! had its effect, and its answer is made from the record.
//!
//! Records are small: an answer of more than [`LARGEST_BODY`] bytes is not
//! kept but made again from the record that it showed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use strata_store::{LeaseId, Revision, StoreError, Transaction};
use strata_types::Result;
use tokio::sync::Mutex;

use super::bounds::Tallies;
use super::follow::public;
use super::record::{decode, encode};
use super::{Core, keys, now_ms};

/// How long an answer is kept at least.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Keys that are claimed within so long go together: one lease for all.
const SHARED: Duration = Duration::from_secs(3600);
/// A claim without an answer is given up after so long: its server ended.
const ABANDONED_MS: i64 = 60_000;
/// The largest answer that is kept as it is.
const LARGEST_BODY: usize = 4096;
/// The same of an answer that shows no record, and cannot be made again.
const LARGEST_WITHOUT_RECORD: usize = 64 * 1024;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// None where it is made again from the record.
    #[serde(default)]
    pub(crate) body: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Of the request, all of it.
    fingerprint: String,
    at_ms: i64,
    /// When the key was first claimed for this request.
    #[serde(default)]
    since_ms: i64,
    /// The key of the record that the request created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(default)]
    given: Option<Given>,
}

/// What is known of answers besides those in the store.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The lease that new keys go with.
    lease: Mutex<Option<(Instant, LeaseId)>>,
    /// How much is kept for whom.
    tallies: Tallies,
}

/// A key that was claimed.
#[derive(Debug)]
pub(crate) struct Claim {
    caller: String,
    key: String,
    fingerprint: String,
    since_ms: i64,
    lease: LeaseId,
    progress: std::sync::Mutex<Progress>,
}

/// How far the request of a claim has come.
#[derive(Clone, Debug)]
struct Progress {
    /// Of the record of the claim.
    revision: Revision,
    /// The key of the record that it created.
    created: Option<String>,
}

tokio::task_local! {
    /// The claim of the request that this task handles.
    static CLAIM: Arc<Claim>;
}

impl Claim {
    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        let progress = self.progress.lock();
        progress.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Handles the request of this claim.
    pub(crate) async fn handle<F: Future>(self: &Arc<Self>, request: F) -> F::Output {
        CLAIM.scope(Arc::clone(self), request).await
    }

    fn record(&self, created: Option<String>, given: Option<Given>) -> Result<bytes::Bytes> {
        encode(&Record {
            fingerprint: self.fingerprint.clone(),
            at_ms: now_ms(),
            since_ms: self.since_ms,
            created,
            given,
        })
    }
}

/// A key for the operation that this request begins: the same for every try
/// of the request, and another one once the request's own key may be used
/// again. None for a request without a key.
pub(crate) fn operation_key() -> Option<String> {
    let claim = CLAIM.try_with(Arc::clone).ok()?;
    let digest = Sha256::digest(format!("{}\n{}", claim.key, claim.since_ms));
    Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What comes of wanting a key.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// The request is to be handled, and the answer left.
    Mine(Arc<Claim>),
    /// It was handled; this was the answer, and this the record it created.
    Answered(Given, Option<String>),
    /// It created the record with this key, and was not answered.
    Created(String),
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
        self.count_answers(caller).await?;
        let found = self.0.store.get(&key).await.map_err(public)?;
        let free = Transaction::new();
        let mut since_ms = now_ms();
        let free = match found {
            None => {
                let oldest = now_ms() - i64::try_from((KEPT + SHARED).as_millis()).unwrap_or(0);
                let most = self.settings().bounds.kept_answers;
                self.0.answers.tallies.check(caller, most, oldest)?;
                free.if_absent(&*key)
            }
            Some(entry) => {
                let record: Record = decode(&key, &entry.value)?;
                match (record.given, record.created) {
                    _ if record.fingerprint != fingerprint => return Ok(Claimed::Other),
                    (Some(given), created) => return Ok(Claimed::Answered(given, created)),
                    (None, Some(created)) => return Ok(Claimed::Created(created)),
                    // Nothing was created: at worst it is begun twice, and
                    // only one of both can create anything.
                    (None, None) if now_ms() - record.at_ms < ABANDONED_MS => {
                        return Ok(Claimed::Busy);
                    }
                    (None, None) => {
                        since_ms = record.since_ms;
                        free.if_unchanged(&*key, entry.changed)
                    }
                }
            }
        };
        let claim = Claim {
            caller: caller.to_owned(),
            key,
            fingerprint: fingerprint.to_owned(),
            since_ms,
            lease: self.answers_lease().await?,
            progress: std::sync::Mutex::new(Progress {
                revision: 0,
                created: None,
            }),
        };
        let record = claim.record(None, None)?;
        let put = free.put_with(&*claim.key, record, Some(claim.lease));
        match self.0.store.commit(put).await {
            Ok(revision) => {
                claim.progress().revision = revision;
                Ok(Claimed::Mine(Arc::new(claim)))
            }
            Err(StoreError::Conflict { .. }) => Ok(Claimed::Busy),
            Err(error) => {
                // The lease may be gone; the next gets another.
                *self.0.answers.lease.lock().await = None;
                Err(public(error))
            }
        }
    }

    /// Creates something for a request, and notes in the same transaction
    /// that it did, where the request has an idempotency key. `created` is the
    /// key of the record.
    pub(crate) async fn commit_effect(
        &self,
        transaction: Transaction,
        created: &str,
    ) -> Result<Revision, StoreError> {
        let Ok(claim) = CLAIM.try_with(Arc::clone) else {
            return self.commit(transaction).await;
        };
        let claimed = claim.progress().revision;
        let record = claim.record(Some(created.to_owned()), None);
        let record = record.map_err(|error| StoreError::Invalid(error.to_string()))?;
        let transaction = transaction.if_unchanged(&*claim.key, claimed).put_with(
            &*claim.key,
            record,
            Some(claim.lease),
        );
        match self.commit(transaction).await {
            Ok(revision) => {
                let created = Some(created.to_owned());
                *claim.progress() = Progress { revision, created };
                Ok(revision)
            }
            // It took so long that another took the claim for abandoned.
            Err(StoreError::Conflict { key }) if key == claim.key => Err(StoreError::Unavailable(
                "the same request is handled elsewhere by now".into(),
            )),
            Err(error) => Err(error),
        }
    }

    /// Leaves the answer; or frees the key, where there is none to keep and
    /// nothing was created.
    pub(crate) async fn settle_claim(&self, claim: &Claim, given: Option<Given>) -> Result<()> {
        let Progress { revision, created } = claim.progress().clone();
        let given = given.and_then(|given| bounded(given, created.is_some()));
        let write = Transaction::new().if_unchanged(&*claim.key, revision);
        let mut kept = None;
        let write = match given {
            // What was created stays so, and is shown when it is asked for.
            None if created.is_some() => return Ok(()),
            None => write.delete(&*claim.key),
            given => {
                let record = claim.record(created, given)?;
                kept = Some((now_ms(), record.len()));
                write.put_with(&*claim.key, record, Some(claim.lease))
            }
        };
        match self.0.store.commit(write).await {
            Ok(_) => {
                if let Some(kept) = kept {
                    self.0.answers.tallies.add(&claim.caller, kept);
                }
                Ok(())
            }
            // It took so long that another took the claim for abandoned.
            Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(public(error)),
        }
    }

    /// Learns what the store keeps for a caller, once.
    async fn count_answers(&self, caller: &str) -> Result<()> {
        let tallies = &self.0.answers.tallies;
        if tallies.knows(caller) {
            return Ok(());
        }
        let prefix = keys::idempotency(caller, "");
        let found = self.0.store.list(&prefix).await.map_err(public)?;
        let entries = found.entries.iter().filter_map(|entry| {
            let record: Record = decode(&entry.key, &entry.value).ok()?;
            Some((record.at_ms, entry.value.len()))
        });
        tallies.learn(caller, entries.collect());
        Ok(())
    }

    async fn answers_lease(&self) -> Result<LeaseId> {
        let mut shared = self.0.answers.lease.lock().await;
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

/// An answer as it is kept: without its body where that is large and can be
/// made again from a record.
fn bounded(given: Given, created: bool) -> Option<Given> {
    let length = given.body.as_ref().map_or(0, String::len);
    if length <= LARGEST_BODY {
        return Some(given);
    }
    let located = given.headers.iter().any(|(name, _)| name == "location");
    if created || located {
        return Some(Given {
            body: None,
            ..given
        });
    }
    (length <= LARGEST_WITHOUT_RECORD).then_some(given)
}
