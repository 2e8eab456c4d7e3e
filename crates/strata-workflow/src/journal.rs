//! How an engine writes one operation: every change by compare-and-set.
//!
//! Between two of its writes others may have written too, to cancel it or to
//! have it cleaned up. Then the change is made again, on what is there now.
//! When the store does not answer, the write may have happened or not; the
//! journal reads the record, by the number that each of its writes has, and
//! goes on until it knows. A future of it that is dropped is the same case.
//!
//! Another engine's hand in the record, or a fence that does not hold any
//! more, means that this engine is deposed: it writes nothing again.

use std::sync::Arc;
use std::time::Duration;

use strata_store::{Condition, Store, StoreError, Transaction};
use uuid::Uuid;

use crate::log::Line;
use crate::operation::{Lines, NextAction};
use crate::records::{self, StoredOperation};
use crate::{Clock, Operation, OperationId, WorkflowError};

const INITIAL_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Why an operation cannot go on here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("another engine leads now")]
    Deposed,
    #[error("the record of operation {0} is gone")]
    Gone(OperationId),
    #[error("{0}")]
    Refused(WorkflowError),
    #[error("the engine panicked")]
    Crashed,
}

/// The writer, and the condition of its writes.
#[derive(Clone)]
pub(crate) struct JournalWriter {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) fence: Option<Condition>,
    pub(crate) writer: Uuid,
}

impl JournalWriter {
    /// A transaction of the engine: it happens only while the engine leads.
    pub(crate) fn transaction(&self) -> Transaction {
        let mut transaction = Transaction::new();
        transaction.conditions.extend(self.fence.clone());
        transaction
    }

    /// Whether this reports that the fence does not hold.
    pub(crate) fn is_deposed(&self, error: &StoreError) -> bool {
        match (error, &self.fence) {
            (StoreError::Conflict { key }, Some(fence)) => key == fence.key(),
            _ => false,
        }
    }
}

/// One operation, as its engine knows and writes it.
pub(crate) struct Journal {
    writer_handle: JournalWriter,
    kept: StoredOperation,
    writes: u64,
}

impl Journal {
    /// The operation as it is in the store now.
    pub(crate) async fn open(
        writer_handle: JournalWriter,
        id: OperationId,
    ) -> Result<Self, JournalError> {
        let kept = fetch(&writer_handle, id).await?;
        Ok(Self {
            writes: kept.operation.bookkeeping.write,
            writer_handle,
            kept,
        })
    }

    pub(crate) fn operation(&self) -> &Operation {
        &self.kept.operation
    }

    pub(crate) fn into_stored(self) -> StoredOperation {
        self.kept
    }

    /// Puts one's own name under what another engine wrote last, if there is
    /// anything to do: should that one still be at it, it sees that it is
    /// deposed.
    pub(crate) async fn take_over(&mut self) -> Result<(), JournalError> {
        let operation = self.operation();
        let others = operation
            .bookkeeping
            .writer
            .is_some_and(|it| it != self.writer_handle.writer);
        if !others || operation.next_action() == NextAction::Rest {
            return Ok(());
        }
        self.apply(|_, _| Some(vec![Line::new("taken up again")]))
            .await
    }

    /// Makes a change and writes it, however long that takes. The change may
    /// be made several times, each time on what is in the store. It does
    /// nothing if the record does not admit it any more.
    pub(crate) async fn apply(
        &mut self,
        change: impl Fn(&mut Operation, i64) -> Lines,
    ) -> Result<(), JournalError> {
        self.writes += 1;
        let mut pause = INITIAL_BACKOFF;
        loop {
            let Some((next, transaction)) = self.prepare(&change)? else {
                return Ok(());
            };
            let known = self.kept.revision;
            let mut conflict = false;
            match self.writer_handle.store.commit(transaction).await {
                Ok(revision) => {
                    self.kept.operation = next;
                    self.kept.revision = revision;
                    return Ok(());
                }
                Err(error) if self.writer_handle.is_deposed(&error) => {
                    return Err(JournalError::Deposed);
                }
                Err(StoreError::Conflict { .. }) => conflict = true,
                Err(StoreError::Unavailable(_) | StoreError::Broken(_)) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_BACKOFF);
                }
                Err(error) => return Err(JournalError::Refused(error.into())),
            }
            if self.refresh().await? {
                return Ok(());
            }
            // If it was not the record that changed, it was the fence,
            // whichever of the two the store named.
            if conflict && self.kept.revision == known {
                return Err(JournalError::Deposed);
            }
        }
    }

    /// The next record and the transaction that writes it.
    fn prepare(
        &self,
        change: impl Fn(&mut Operation, i64) -> Lines,
    ) -> Result<Option<(Operation, Transaction)>, JournalError> {
        let now_ms = self.writer_handle.clock.now_ms();
        let mut next = self.kept.operation.clone();
        let Some(lines) = change(&mut next, now_ms) else {
            return Ok(None);
        };
        next.bookkeeping.writer = Some(self.writer_handle.writer);
        next.bookkeeping.write = self.writes;
        let transaction = self
            .writer_handle
            .transaction()
            .if_unchanged(records::record_key(next.id), self.kept.revision);
        let transaction =
            records::put(transaction, &mut next, lines, now_ms).map_err(JournalError::Refused)?;
        Ok(Some((next, transaction)))
    }

    /// Reads what is there. Reports whether it is the write that was tried.
    async fn refresh(&mut self) -> Result<bool, JournalError> {
        let found = fetch(&self.writer_handle, self.kept.operation.id).await?;
        let (theirs, known) = (
            &found.operation.bookkeeping,
            &self.kept.operation.bookkeeping,
        );
        let ours = theirs.writer == Some(self.writer_handle.writer);
        if !ours && theirs.writer != known.writer {
            return Err(JournalError::Deposed);
        }
        let written = ours && theirs.write == self.writes;
        self.kept = found;
        Ok(written)
    }
}

/// Reads a record, however long that takes.
async fn fetch(
    writer_handle: &JournalWriter,
    id: OperationId,
) -> Result<StoredOperation, JournalError> {
    let mut pause = INITIAL_BACKOFF;
    loop {
        match records::load(writer_handle.store.as_ref(), id).await {
            Ok(Some(kept)) => return Ok(kept),
            Ok(None) => return Err(JournalError::Gone(id)),
            Err(WorkflowError::Store(StoreError::Unavailable(_) | StoreError::Broken(_))) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_BACKOFF);
            }
            Err(error) => return Err(JournalError::Refused(error)),
        }
    }
}
