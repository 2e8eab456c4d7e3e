//! How an operation comes to be: its record, the first line of its log and
//! its idempotency key, in one write.

use std::time::Duration;

use serde_json::Value;
use strata_store::{StoreError, Transaction};

use crate::log::Line;
use crate::operation::{Bookkeeping, State};
use crate::records;
use crate::{Operation, OperationId, Operations, WorkflowError};

/// How often it is tried when the store does not answer. It is the same
/// record each time: no try makes a second one.
const MAX_ATTEMPTS: u32 = 5;
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

const MAX_KEY_LENGTH: usize = 128;
const MAX_OWNER_LENGTH: usize = 128;
const MAX_INPUT_BYTES: usize = 256 << 10;

pub(crate) async fn submit(
    operations: &Operations,
    kind: &str,
    input: Value,
    owner: &str,
    key: Option<&str>,
) -> Result<OperationId, WorkflowError> {
    let operation = new(operations, kind, input, owner, key)?;
    let id = operation.id;
    let mut last = StoreError::Unavailable("never tried".into());
    for _ in 0..MAX_ATTEMPTS {
        let mut transaction = Transaction::new().if_absent(records::record_key(id));
        if let Some(key) = key {
            let key = records::idempotency_key(owner, key);
            transaction = transaction.if_absent(&key).put(key, id.to_string());
        }
        let line = Line::new(format!("submitted by {owner}"));
        let mut written = operation.clone();
        let transaction =
            records::put(transaction, &mut written, vec![line], operation.created_ms)?;
        match operations.store.commit(transaction).await {
            Ok(_) => return Ok(id),
            Err(StoreError::Conflict { .. }) => return settle(operations, &operation).await,
            Err(error @ StoreError::Unavailable(_)) => {
                last = error;
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.into())
}

fn new(
    operations: &Operations,
    kind: &str,
    input: Value,
    owner: &str,
    key: Option<&str>,
) -> Result<Operation, WorkflowError> {
    let bad = |reason: String| WorkflowError::BadInput {
        kind: kind.into(),
        reason,
    };
    let known = operations.registry.find(kind);
    let known = known.ok_or_else(|| WorkflowError::UnknownKind { kind: kind.into() })?;
    let claims = known
        .claims(&input)
        .map_err(|error| bad(error.to_string()))?;
    let size = input.to_string().len();
    if size > MAX_INPUT_BYTES {
        return Err(bad(format!("{size} bytes are more than {MAX_INPUT_BYTES}")));
    }
    if owner.len() > MAX_OWNER_LENGTH {
        return Err(bad(format!(
            "the owner has more than {MAX_OWNER_LENGTH} bytes"
        )));
    }
    if key.is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_LENGTH) {
        return Err(WorkflowError::BadKey {
            most: MAX_KEY_LENGTH,
        });
    }
    Ok(Operation {
        id: OperationId::fresh(),
        kind: kind.into(),
        owner: owner.into(),
        input,
        claims,
        created_ms: operations.clock.now_ms(),
        state: State::Scheduled,
        steps: Vec::new(),
        cancel: None,
        abandoned: None,
        bookkeeping: Bookkeeping {
            key: key.map(str::to_owned),
            ..Bookkeeping::default()
        },
        other: Default::default(),
    })
}

/// Something of it is there: an earlier try of this call, or the operation
/// that the key stands for since before.
async fn settle(operations: &Operations, wanted: &Operation) -> Result<OperationId, WorkflowError> {
    let store = operations.store.as_ref();
    if records::load(store, wanted.id).await?.is_some() {
        return Ok(wanted.id);
    }
    let contended = || WorkflowError::Contended { id: wanted.id };
    let key = wanted.bookkeeping.key.as_deref().ok_or_else(contended)?;
    let place = records::idempotency_key(&wanted.owner, key);
    let entry = store.get(&place).await?.ok_or_else(contended)?;
    let id: OperationId = std::str::from_utf8(&entry.value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| WorkflowError::Unreadable {
            key: place,
            reason: "it is not the id of an operation".into(),
        })?;
    let found = operations.get(id).await?;
    if found.kind == wanted.kind && found.input == wanted.input {
        return Ok(id);
    }
    let key = key.to_owned();
    Err(WorkflowError::KeyReused { key, id })
}
