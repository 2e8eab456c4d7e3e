//! What any program may do with operations, whether it leads or not.
//!
//! Every answer comes from the store and every request goes into it; the engine
//! that leads, here or elsewhere, follows the store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;
use strata_store::{Store, StoreError, Transaction};

use crate::claim::conflict;
use crate::operation::Lines;
use crate::records::{self, RECORDS};
use crate::retention::delete_log;
use crate::snapshots::{Snapshots, snapshots};
use crate::{Clock, Filter, Kind, LogLine, Operation, OperationId, Registry, WorkflowError};

/// How often a request is tried against a record that keeps changing, or a store
/// that does not answer.
const MAX_ATTEMPTS: u32 = 10;
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Operations, for callers that submit, show, watch or cancel them. Cheap to
/// clone.
#[derive(Clone)]
pub struct Operations {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Clock,
}

impl Operations {
    /// The operations in a store.
    pub fn new(store: Arc<dyn Store>, registry: Registry) -> Self {
        Self {
            store,
            registry: Arc::new(registry),
            clock: Clock::system(),
        }
    }

    /// With another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Submits an operation. It is recorded when this returns, and begins when
    /// it is its turn. With an idempotency key, which is the owner's own,
    /// submitting twice is one operation, for as long as the key is kept.
    pub async fn submit<K: Kind>(
        &self,
        input: &K::Input,
        owner: &str,
        key: Option<&str>,
    ) -> Result<OperationId, WorkflowError> {
        let input = serde_json::to_value(input).map_err(|error| WorkflowError::BadInput {
            kind: K::NAME.into(),
            reason: error.to_string(),
        })?;
        self.submit_value(K::NAME, input, owner, key).await
    }

    /// The same for a kind that is known by its name only.
    pub async fn submit_value(
        &self,
        kind: &str,
        input: Value,
        owner: &str,
        key: Option<&str>,
    ) -> Result<OperationId, WorkflowError> {
        crate::submit::submit(self, kind, input, owner, key).await
    }

    pub async fn get(&self, id: OperationId) -> Result<Operation, WorkflowError> {
        let kept = records::load(self.store.as_ref(), id).await?;
        Ok(kept.ok_or(WorkflowError::NotFound { id })?.operation)
    }

    /// All operations that the filter lets through, oldest first. Records
    /// that cannot be read are left out, and logged.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Operation>, WorkflowError> {
        let listing = self.store.list(RECORDS).await?;
        let readable = |entry| match records::decode_record(entry) {
            Ok(kept) => Some(kept.operation),
            Err(error) => {
                tracing::warn!(%error, "left out of a list of operations");
                None
            }
        };
        let all = listing.entries.iter().filter_map(readable);
        Ok(all.filter(|it| filter.matches(it)).collect())
    }

    /// The operation as it is, then as it changes, until it has ended. A slow
    /// reader misses what was in between, never the end. Dropping it changes
    /// nothing; watching again begins with what is then.
    pub async fn watch(&self, id: OperationId) -> Result<Snapshots, WorkflowError> {
        snapshots(Arc::clone(&self.store), id).await
    }

    /// Waits until the operation has ended.
    pub async fn wait(&self, id: OperationId) -> Result<Operation, WorkflowError> {
        let mut snapshots = self.watch(id).await?;
        while let Some(operation) = snapshots.next().await {
            let operation = operation?;
            if operation.has_ended() {
                return Ok(operation);
            }
        }
        Err(WorkflowError::NotFound { id })
    }

    /// Requests the cancellation: an operation that has not begun ends at once;
    /// one that runs unwinds at its next safe point, and undoes what it did.
    /// Idempotent, until it has ended.
    pub async fn cancel(&self, id: OperationId, by: &str) -> Result<Operation, WorkflowError> {
        let change = |it: &mut Operation, now_ms| it.request_cancel(by, now_ms);
        self.change(id, WorkflowError::Ended { id }, change).await
    }

    /// Requests another try at undoing what a failed operation left, now rather
    /// than in a while.
    pub async fn retry_unwind(&self, id: OperationId) -> Result<Operation, WorkflowError> {
        let change = |it: &mut Operation, _| it.request_cleanup();
        self.change(id, WorkflowError::NothingLeft { id }, change)
            .await
    }

    /// Takes what a failed operation left on oneself: it is not tried again,
    /// and its claims are free.
    pub async fn abandon(&self, id: OperationId, by: &str) -> Result<Operation, WorkflowError> {
        let change = |it: &mut Operation, now_ms| it.abandon(by, now_ms);
        self.change(id, WorkflowError::NothingLeft { id }, change)
            .await
    }

    /// Removes all that have not ended, without undoing anything: for a store
    /// that reports another time. No engine may run on it. The answer is how
    /// many there were. The record goes last, with its idempotency key: cut
    /// short and repeated, it finds what is left.
    pub async fn delete_unfinished(&self) -> Result<usize, WorkflowError> {
        let all = self.list(&Filter::default()).await?;
        let open = all.iter().filter(|it| !it.has_ended() || it.holds_claims());
        let mut count = 0;
        for operation in open {
            let store = self.store.as_ref();
            delete_log(store, operation.id, Transaction::new).await?;
            let mut gone = Transaction::new().delete(records::record_key(operation.id));
            if let Some(key) = &operation.bookkeeping.key {
                gone = gone.delete(records::idempotency_key(&operation.owner, key));
            }
            store.commit(gone).await?;
            count += 1;
        }
        Ok(count)
    }

    /// What happened in it, oldest first; only the latest lines of very many.
    pub async fn log(&self, id: OperationId) -> Result<Vec<LogLine>, WorkflowError> {
        let listing = self.store.list(&records::log_prefix(id)).await?;
        if listing.entries.is_empty() {
            self.get(id).await?;
        }
        listing.entries.iter().map(records::decode).collect()
    }

    /// The operations that one that is scheduled waits for, oldest first.
    pub async fn waits_for(&self, id: OperationId) -> Result<Vec<OperationId>, WorkflowError> {
        let listing = self.store.list(RECORDS).await?;
        let readable = |entry| records::decode_record(entry).ok();
        let mut all: Vec<_> = listing.entries.iter().filter_map(readable).collect();
        all.sort_by_key(|it| it.created);
        let own = all.iter().find(|it| it.operation.id == id);
        let own = own.ok_or(WorkflowError::NotFound { id })?;
        let mine = &own.operation;
        if mine.has_ended() || mine.holds_claims() {
            return Ok(Vec::new());
        }
        let before = all.iter().filter(|it| {
            let waits = !it.operation.has_ended() && it.created < own.created;
            (waits || it.operation.holds_claims()) && conflict(&it.operation.claims, &mine.claims)
        });
        Ok(before.map(|it| it.operation.id).collect())
    }

    /// Writes a caller's request into a record. `refused` is why not, if the
    /// record does not admit it.
    async fn change(
        &self,
        id: OperationId,
        refused: WorkflowError,
        change: impl Fn(&mut Operation, i64) -> Lines,
    ) -> Result<Operation, WorkflowError> {
        let mut last = WorkflowError::Contended { id };
        for _ in 0..MAX_ATTEMPTS {
            let kept = records::load(self.store.as_ref(), id).await?;
            let kept = kept.ok_or(WorkflowError::NotFound { id })?;
            let now_ms = self.clock.now_ms();
            let mut next = kept.operation.clone();
            let Some(lines) = change(&mut next, now_ms) else {
                return Err(refused);
            };
            if next == kept.operation {
                return Ok(next);
            }
            let unchanged = Transaction::new().if_unchanged(records::record_key(id), kept.revision);
            let transaction = records::put(unchanged, &mut next, lines, now_ms)?;
            match self.store.commit(transaction).await {
                Ok(_) => return Ok(next),
                Err(StoreError::Conflict { .. }) => {}
                Err(error @ StoreError::Unavailable(_)) => {
                    last = error.into();
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(last)
    }
}
