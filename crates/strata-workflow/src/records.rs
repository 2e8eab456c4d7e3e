//! Where operations are in the store, and how they are written there.
//!
//! ```text
//! operation/{id}              the record
//! operation-log/{id}/{n}      line n of its log
//! operation-key/{owner}/{key} the id that an idempotency key stands for
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;
use strata_store::{Entry, Revision, Store, Transaction};

use crate::log::Line;
use crate::{LogLine, Operation, OperationId, WorkflowError};

/// What the keys of all records begin with.
pub(crate) const RECORDS: &str = "operation/";

/// How many lines of log are kept of one operation.
const MAX_LOG_LINES: u64 = 500;

/// An operation as it is in the store.
#[derive(Clone, Debug)]
pub(crate) struct StoredOperation {
    pub(crate) operation: Operation,
    /// When it was last written.
    pub(crate) revision: Revision,
    /// When it came to be: its place in the order of operations.
    pub(crate) created: Revision,
}

pub(crate) fn record_key(id: OperationId) -> String {
    format!("{RECORDS}{id}")
}

/// What the keys of the log of one operation begin with.
pub(crate) fn log_prefix(id: OperationId) -> String {
    format!("operation-log/{id}/")
}

fn line_key(id: OperationId, number: u64) -> String {
    format!("operation-log/{id}/{number:020}")
}

/// The owner is escaped, so that no two pairs are one key.
pub(crate) fn idempotency_key(owner: &str, key: &str) -> String {
    let owner = owner.replace('%', "%25").replace('/', "%2F");
    format!("operation-key/{owner}/{key}")
}

/// The operation that the key of a record names.
pub(crate) fn id_in(key: &str) -> Option<OperationId> {
    key.strip_prefix(RECORDS)?.parse().ok()
}

pub(crate) fn decode<T: DeserializeOwned>(entry: &Entry) -> Result<T, WorkflowError> {
    serde_json::from_slice(&entry.value).map_err(|error| WorkflowError::Unreadable {
        key: entry.key.clone(),
        reason: error.to_string(),
    })
}

pub(crate) fn decode_record(entry: &Entry) -> Result<StoredOperation, WorkflowError> {
    Ok(StoredOperation {
        operation: decode(entry)?,
        revision: entry.changed,
        created: entry.created,
    })
}

pub(crate) async fn load(
    store: &dyn Store,
    id: OperationId,
) -> Result<Option<StoredOperation>, WorkflowError> {
    let entry = store.get(&record_key(id)).await?;
    entry.as_ref().map(decode_record).transpose()
}

/// Adds the record and the new lines of its log to a transaction, and drops
/// the lines that are too many.
pub(crate) fn put(
    transaction: Transaction,
    operation: &mut Operation,
    lines: Vec<Line>,
    now_ms: i64,
) -> Result<Transaction, WorkflowError> {
    let id = operation.id;
    let mut transaction = transaction;
    for line in lines {
        let number = operation.bookkeeping.next_line;
        operation.bookkeeping.next_line += 1;
        let line: LogLine = line.numbered(number, now_ms);
        transaction = transaction.put(line_key(id, number), encode(&line_key(id, number), &line)?);
        if let Some(oldest) = number.checked_sub(MAX_LOG_LINES) {
            transaction = transaction.delete(line_key(id, oldest));
        }
    }
    let key = record_key(id);
    let value = encode(&key, operation)?;
    Ok(transaction.put(key, value))
}

fn encode<T: Serialize>(key: &str, value: &T) -> Result<Vec<u8>, WorkflowError> {
    serde_json::to_vec(value).map_err(|error| WorkflowError::Unreadable {
        key: key.into(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::idempotency_key;

    #[test]
    fn owners_do_not_share_idempotency_keys() {
        assert_ne!(idempotency_key("a/b", "c"), idempotency_key("a", "b/c"));
        assert_ne!(idempotency_key("a/b", "c"), idempotency_key("a%2Fb", "c"));
    }
}
