//! How an operation comes to be: its record, the first line of its log and
//! its idempotency key, in one write.

use std::time::Duration;

use serde_json::Value;
use strata_store::{StoreError, Transaction};

use crate::log::Line;
use crate::operation::{Book, State};
use crate::records;
use crate::{Operation, OperationId, Operations, WorkflowError};

/// How often it is tried when the store does not answer. It is the same
/// record each time: no try makes a second one.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

const LONGEST_KEY: usize = 128;
const LONGEST_OWNER: usize = 128;
const LARGEST_INPUT: usize = 256 << 10;

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
    for _ in 0..TRIES {
        let mut transaction = Transaction::new().if_absent(records::record_key(id));
        if let Some(key) = key {
            let key = records::idempotency_key(owner, key);
            transaction = transaction.if_absent(&key).put(key, id.to_string());
        }
        let line = Line::new(format!("{owner} asks for it"));
        let mut written = operation.clone();
        let transaction =
            records::put(transaction, &mut written, vec![line], operation.created_ms)?;
        match operations.store.commit(transaction).await {
            Ok(_) => return Ok(id),
            Err(StoreError::Conflict { .. }) => return settle(operations, &operation).await,
            Err(error @ StoreError::Unavailable(_)) => {
                last = error;
                tokio::time::sleep(PAUSE).await;
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
    if size > LARGEST_INPUT {
        return Err(bad(format!("{size} bytes are more than {LARGEST_INPUT}")));
    }
    if owner.len() > LONGEST_OWNER {
        return Err(bad(format!(
            "the owner has more than {LONGEST_OWNER} bytes"
        )));
    }
    if key.is_some_and(|key| key.is_empty() || key.len() > LONGEST_KEY) {
        return Err(WorkflowError::BadKey { most: LONGEST_KEY });
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
        given_up: None,
        book: Book {
            key: key.map(str::to_owned),
            ..Book::default()
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
    let key = wanted.book.key.as_deref().ok_or_else(contended)?;
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
