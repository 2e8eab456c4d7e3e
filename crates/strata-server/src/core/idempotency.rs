//! What was answered to a request that may come twice. The server that handles
//! it first claims its key, and leaves the answer there; a later caller with
//! the same request gets that answer, for a day. It is in the store, so it
//! holds across restarts and servers.
//!
//! A server may die at any moment of it. What creates something says so in the
//! same transaction (`Core::commit_effect`): on the condition that the key is
//! still claimed by this request, and with a note of what was created. So a
//! claim without a note had no effect, and may be taken over; one with a note
//! had its effect, and its answer is made from the record.
//!
//! The same for what changes or deletes one record: the request names that
//! record and the status of its answer ([`expect_effect`]), and the transaction
//! that writes it carries the note. What needs several transactions is noted
//! with the last; a repeat goes on where the first has ended.
//!
//! Records are small: an answer of more than [`MAX_STORED_BODY`] bytes is not
//! kept but made again from the record that it showed.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use strata_store::{LeaseId, Revision, StoreError, Transaction, Write};
use strata_types::Result;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::bounds::Tallies;
use super::record::{decode, encode};
use super::store_watch::public;
use super::{Core, keys, now_ms};

/// How long an answer is kept at least.
const RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Keys that are claimed within so long go together: one lease for all.
const LEASE_TTL: Duration = Duration::from_secs(3600);
/// A claim without an answer is abandoned after so long: its server ended.
const STALE_AFTER_MS: i64 = 60_000;
/// The largest answer that is kept as it is.
const MAX_STORED_BODY: usize = 4096;
/// The same of an answer that shows no record, and cannot be made again.
const MAX_REPLAYED_BODY: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredResponse {
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
    /// What else the request changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<ChangedRecord>,
    #[serde(default)]
    given: Option<StoredResponse>,
}

/// The record that a request changed or deleted, and the status of its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedRecord {
    pub(crate) key: String,
    pub(crate) status: u16,
}

/// The one write that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    record: ChangedRecord,
    /// Only the write that deletes the record.
    deletes: bool,
}

impl Effect {
    /// The record is changed, and shown.
    pub(crate) fn updates(key: String) -> Self {
        Self::new(key, 200, false)
    }

    /// The record is changed so that what is requested follows, or deleted where
    /// nothing has to.
    pub(crate) fn accepts(key: String) -> Self {
        Self::new(key, 202, false)
    }

    pub(crate) fn deletes(key: String) -> Self {
        Self::new(key, 202, true)
    }

    /// The same, with another status.
    pub(crate) fn answered(mut self, status: u16) -> Self {
        self.record.status = status;
        self
    }

    fn new(key: String, status: u16, deletes: bool) -> Self {
        let record = ChangedRecord { key, status };
        Self { record, deletes }
    }

    fn is_in(&self, transaction: &Transaction) -> bool {
        transaction.writes.iter().any(|write| {
            let is_delete = matches!(write, Write::Delete { .. });
            write.key() == self.record.key && (is_delete || !self.deletes)
        })
    }
}

/// What is known of answers besides those in the store.
#[derive(Debug, Default)]
pub(super) struct ResponseBudget {
    /// The lease that new keys go with.
    lease: Mutex<Option<(Instant, LeaseId)>>,
    /// How much is kept for each caller.
    tallies: Tallies,
}

/// A key that was claimed.
#[derive(Debug)]
pub(crate) struct IdempotencyClaim {
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
    /// What it is about to change.
    expected: Option<Effect>,
    /// What it has changed.
    changed: Option<ChangedRecord>,
}

impl Progress {
    fn has_effect(&self) -> bool {
        self.created.is_some() || self.changed.is_some()
    }
}

tokio::task_local! {
    /// The claim of the request that this task handles.
    static CLAIM: Arc<IdempotencyClaim>;
}

impl IdempotencyClaim {
    /// The key that the caller chose.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        let progress = self.progress.lock();
        progress.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Handles the request of this claim.
    pub(crate) async fn handle<F: Future>(self: &Arc<Self>, request: F) -> F::Output {
        CLAIM.scope(Arc::clone(self), request).await
    }

    fn record(
        &self,
        created: Option<String>,
        changed: Option<ChangedRecord>,
        given: Option<StoredResponse>,
    ) -> Result<bytes::Bytes> {
        encode(&Record {
            fingerprint: self.fingerprint.clone(),
            at_ms: now_ms(),
            since_ms: self.since_ms,
            created,
            changed,
            given,
        })
    }
}

/// A transaction that carries the note of its effect.
pub(super) struct NotedEffect {
    claim: Arc<IdempotencyClaim>,
    record: ChangedRecord,
}

impl NotedEffect {
    /// Adds the note to the transaction that has the effect which the request
    /// of this task expects.
    pub(super) fn add_to(transaction: &mut Transaction) -> Result<Option<Self>, StoreError> {
        let Ok(claim) = CLAIM.try_with(Arc::clone) else {
            return Ok(None);
        };
        let (revision, expected) = {
            let progress = claim.progress();
            (progress.revision, progress.expected.clone())
        };
        let Some(Effect { record, .. }) = expected.filter(|effect| effect.is_in(transaction))
        else {
            return Ok(None);
        };
        let note = claim.record(None, Some(record.clone()), None);
        let note = note.map_err(|error| StoreError::Invalid(error.to_string()))?;
        let noted = std::mem::take(transaction)
            .if_unchanged(&*claim.key, revision)
            .put_with(&*claim.key, note, Some(claim.lease));
        *transaction = noted;
        Ok(Some(Self { claim, record }))
    }

    /// Both were written, or neither.
    pub(super) fn written(
        self,
        written: Result<Revision, StoreError>,
    ) -> Result<Revision, StoreError> {
        match written {
            Ok(revision) => {
                let mut progress = self.claim.progress();
                progress.revision = revision;
                progress.changed = Some(self.record);
                progress.expected = None;
                Ok(revision)
            }
            Err(StoreError::Conflict { key }) if key == self.claim.key => Err(taken_over()),
            Err(error) => Err(error),
        }
    }
}

/// It took so long that another took the claim for abandoned.
fn taken_over() -> StoreError {
    StoreError::Unavailable("the same request is handled elsewhere by now".into())
}

/// What the request of this task is about to change; for one with a key.
pub(crate) fn expect_effect(effect: Effect) {
    if let Ok(claim) = CLAIM.try_with(Arc::clone) {
        claim.progress().expected = Some(effect);
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
pub(crate) enum ClaimOutcome {
    /// The request is to be handled, and the answer left.
    Mine(Arc<IdempotencyClaim>),
    /// It was handled; this was the answer, and this the record it created.
    Answered(StoredResponse, Option<String>),
    /// It created the record with this key, and was not answered.
    Created(String),
    /// It changed this record, and was not answered.
    Changed(ChangedRecord),
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
    ) -> Result<ClaimOutcome> {
        let key = keys::idempotency(caller, key);
        self.count_answers(caller).await?;
        let found = self.0.store.get(&key).await.map_err(public)?;
        let free = Transaction::new();
        let mut since_ms = now_ms();
        let free = match found {
            None => {
                let oldest =
                    now_ms() - i64::try_from((RETENTION + LEASE_TTL).as_millis()).unwrap_or(0);
                let most = self.settings().bounds.kept_answers;
                self.0.answers.tallies.check(caller, most, oldest)?;
                free.if_absent(&*key)
            }
            Some(entry) => {
                let record: Record = decode(&key, &entry.value)?;
                match (record.given, record.created, record.changed) {
                    _ if record.fingerprint != fingerprint => return Ok(ClaimOutcome::Other),
                    (Some(given), created, _) => return Ok(ClaimOutcome::Answered(given, created)),
                    (None, Some(created), _) => return Ok(ClaimOutcome::Created(created)),
                    (None, None, Some(changed)) => return Ok(ClaimOutcome::Changed(changed)),
                    // It had no effect: at worst it is begun twice, and only one
                    // of both can have one.
                    (None, None, None) if now_ms() - record.at_ms < STALE_AFTER_MS => {
                        return Ok(ClaimOutcome::Busy);
                    }
                    (None, None, None) => {
                        since_ms = record.since_ms;
                        free.if_unchanged(&*key, entry.changed)
                    }
                }
            }
        };
        let claim = IdempotencyClaim {
            caller: caller.to_owned(),
            key,
            fingerprint: fingerprint.to_owned(),
            since_ms,
            lease: self.answers_lease().await?,
            progress: std::sync::Mutex::new(Progress {
                revision: 0,
                created: None,
                expected: None,
                changed: None,
            }),
        };
        let record = claim.record(None, None, None)?;
        let put = free.put_with(&*claim.key, record, Some(claim.lease));
        match self.0.store.commit(put).await {
            Ok(revision) => {
                claim.progress().revision = revision;
                Ok(ClaimOutcome::Mine(Arc::new(claim)))
            }
            Err(StoreError::Conflict { .. }) => Ok(ClaimOutcome::Busy),
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
        let record = claim.record(Some(created.to_owned()), None, None);
        let record = record.map_err(|error| StoreError::Invalid(error.to_string()))?;
        let transaction = transaction.if_unchanged(&*claim.key, claimed).put_with(
            &*claim.key,
            record,
            Some(claim.lease),
        );
        match self.commit(transaction).await {
            Ok(revision) => {
                let mut progress = claim.progress();
                progress.revision = revision;
                progress.created = Some(created.to_owned());
                Ok(revision)
            }
            Err(StoreError::Conflict { key }) if key == claim.key => Err(taken_over()),
            Err(error) => Err(error),
        }
    }

    /// Leaves the answer; or frees the key, where there is none to keep and the
    /// request had no effect.
    pub(crate) async fn settle_claim(
        &self,
        claim: &IdempotencyClaim,
        given: Option<StoredResponse>,
    ) -> Result<()> {
        let progress = claim.progress().clone();
        let has_effect = progress.has_effect();
        let Progress {
            revision,
            created,
            changed,
            ..
        } = progress;
        let given = given.and_then(|given| bounded(given, created.is_some()));
        let write = Transaction::new().if_unchanged(&*claim.key, revision);
        let mut stored = None;
        let write = match given {
            // What was created or changed stays so, and is shown when the
            // request is repeated.
            None if has_effect => return Ok(()),
            None => write.delete(&*claim.key),
            given => {
                let record = claim.record(created, changed, given)?;
                stored = Some((now_ms(), record.len()));
                write.put_with(&*claim.key, record, Some(claim.lease))
            }
        };
        match self.0.store.commit(write).await {
            Ok(_) => {
                if let Some(stored) = stored {
                    self.0.answers.tallies.add(&claim.caller, stored);
                }
                Ok(())
            }
            // It took so long that another took the claim for abandoned.
            Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(public(error)),
        }
    }

    /// Reads what the store keeps for a caller, once.
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
            Some((since, lease)) if since.elapsed() < LEASE_TTL => Ok(lease),
            _ => {
                let lease = self
                    .0
                    .store
                    .grant(RETENTION + LEASE_TTL)
                    .await
                    .map_err(public)?;
                *shared = Some((Instant::now(), lease));
                Ok(lease)
            }
        }
    }
}

/// An answer as it is kept: without its body where that is large and can be
/// made again from a record.
fn bounded(given: StoredResponse, created: bool) -> Option<StoredResponse> {
    let length = given.body.as_ref().map_or(0, String::len);
    if length <= MAX_STORED_BODY {
        return Some(given);
    }
    let located = given.headers.iter().any(|(name, _)| name == "location");
    if created || located {
        return Some(StoredResponse {
            body: None,
            ..given
        });
    }
    (length <= MAX_REPLAYED_BODY).then_some(given)
}
