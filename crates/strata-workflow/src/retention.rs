//! Which operations that have ended are removed, and how.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use strata_store::{Store, StoreError, Transaction};

use crate::OperationId;
use crate::journal::JournalWriter;
use crate::records;

/// Deletions per transaction: well below what etcd takes.
const BATCH_SIZE: usize = 100;

/// How long operations are remembered after they have ended. One that has
/// left something behind is never removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub keep_for: Duration,
    /// And no more than this many.
    pub keep_at_most: usize,
}

impl Default for Retention {
    /// A month, and a thousand.
    fn default() -> Self {
        Self {
            keep_for: Duration::from_secs(30 * 24 * 3600),
            keep_at_most: 1000,
        }
    }
}

/// The operations that have ended, by age.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    by_age: BTreeSet<(i64, OperationId)>,
    ctx: HashMap<OperationId, i64>,
}

impl Ended {
    pub(crate) fn insert(&mut self, id: OperationId, ended_ms: i64) {
        self.remove(id);
        self.ctx.insert(id, ended_ms);
        self.by_age.insert((ended_ms, id));
    }

    pub(crate) fn remove(&mut self, id: OperationId) {
        if let Some(ended_ms) = self.ctx.remove(&id) {
            self.by_age.remove(&(ended_ms, id));
        }
    }

    pub(crate) fn ids(&self) -> Vec<OperationId> {
        self.ctx.keys().copied().collect()
    }

    pub(crate) fn is_over(&self, retention: &Retention) -> bool {
        self.by_age.len() > retention.keep_at_most
    }

    /// Those to remove now, oldest first.
    pub(crate) fn due(&self, retention: &Retention, now_ms: i64) -> Vec<OperationId> {
        let keep_ms = i64::try_from(retention.keep_for.as_millis()).unwrap_or(i64::MAX);
        let before = now_ms.saturating_sub(keep_ms);
        let too_many = self.by_age.len().saturating_sub(retention.keep_at_most);
        let ages = self.by_age.iter().enumerate();
        ages.take_while(|(n, (ended_ms, _))| *n < too_many || *ended_ms < before)
            .map(|(_, (_, id))| *id)
            .collect()
    }
}

/// Deletes the log, then the record and its idempotency key. Idempotent.
pub(crate) async fn delete(
    writer_handle: &JournalWriter,
    id: OperationId,
) -> Result<(), crate::WorkflowError> {
    let store = writer_handle.store.as_ref();
    let Some(kept) = records::load(store, id).await? else {
        return Ok(());
    };
    let operation = &kept.operation;
    if !operation.has_ended() || operation.holds_claims() {
        return Ok(());
    }
    delete_log(store, id, || writer_handle.transaction()).await?;
    let mut deletion = writer_handle
        .transaction()
        .if_unchanged(records::record_key(id), kept.revision)
        .delete(records::record_key(id));
    if let Some(key) = &operation.bookkeeping.key {
        deletion = deletion.delete(records::idempotency_key(&operation.owner, key));
    }
    match store.commit(deletion).await {
        Ok(_) => Ok(()),
        // Another writer was faster; whatever it is now is handled next time.
        Err(StoreError::Conflict { key }) if key == records::record_key(id) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Deletes all lines of an operation's log, as many at once as a store takes,
/// each time on the conditions that `begin` has.
pub(crate) async fn delete_log(
    store: &dyn Store,
    id: OperationId,
    begin: impl Fn() -> Transaction,
) -> Result<(), StoreError> {
    let log = store.list(&records::log_prefix(id)).await?;
    for lines in log.entries.chunks(BATCH_SIZE) {
        let deletion = lines
            .iter()
            .fold(begin(), |all, line| all.delete(&line.key));
        store.commit(deletion).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_and_surplus_operations_are_due_for_deletion() {
        let ids: Vec<_> = (0..5).map(|_| OperationId::fresh()).collect();
        let mut ended = Ended::default();
        for (id, at_ms) in ids.iter().zip([1000, 2000, 3000, 4000, 5000]) {
            ended.insert(*id, at_ms);
        }
        let retention = |seconds, keep_at_most| Retention {
            keep_for: Duration::from_secs(seconds),
            keep_at_most,
        };
        assert_eq!(ended.due(&retention(10, 9), 6000), []);
        assert_eq!(ended.due(&retention(3, 9), 6000), ids[..2]);
        assert_eq!(ended.due(&retention(3, 1), 6000), ids[..4]);
        assert!(ended.is_over(&retention(3, 4)));
        ended.remove(ids[4]);
        assert!(!ended.is_over(&retention(3, 4)));
    }
}
