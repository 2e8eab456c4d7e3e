//! What can go wrong for a caller, by what the caller can do about it.

use strata_store::StoreError;

use crate::OperationId;

/// Why a request about operations was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkflowError {
    /// There is no such operation, or none any more.
    #[error("there is no operation {id}")]
    NotFound { id: OperationId },
    /// This kind is not registered.
    #[error("there is no kind of operation called {kind}")]
    UnknownKind { kind: String },
    /// Two kinds of one name were registered: it is a bug.
    #[error("the kind {kind} is registered twice")]
    DuplicateKind { kind: String },
    /// The input is not what the kind takes.
    #[error("the input of {kind} cannot be used: {reason}")]
    BadInput {
        kind: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The idempotency key is empty or too long.
    #[error("an idempotency key has 1 to {most} bytes")]
    BadKey { most: usize },
    /// The idempotency key was used for something else.
    #[error("the idempotency key {key} belongs to operation {id}, which is another request")]
    KeyReused { key: String, id: OperationId },
    /// It has ended: nothing to cancel.
    #[error("operation {id} has ended already")]
    Ended { id: OperationId },
    /// It left nothing behind: nothing to clean up or to abandon.
    #[error("operation {id} has left nothing behind")]
    NothingLeft { id: OperationId },
    /// Its record is written again faster than a request can be added to it.
    #[error("operation {id} changes too fast; try again")]
    Contended { id: OperationId },
    /// A record is not readable. It is kept as it is.
    #[error("the record {key} cannot be read: {reason}")]
    Unreadable {
        /// Where it is kept.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
}
