//! What can go wrong for who asks, by what they can do about it.

use strata_store::StoreError;

use crate::OperationId;

/// Why a request about operations was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkflowError {
    /// There is no such operation, or none any more.
    #[error("there is no operation {id}")]
    NotFound {
        /// Which.
        id: OperationId,
    },
    /// Nobody registered this kind.
    #[error("there is no kind of operation called {kind}")]
    UnknownKind {
        /// Which.
        kind: String,
    },
    /// Two kinds of one name were registered: it is a bug.
    #[error("the kind {kind} is registered twice")]
    DuplicateKind {
        /// Which.
        kind: String,
    },
    /// The input is not what the kind takes.
    #[error("the input of {kind} cannot be used: {reason}")]
    BadInput {
        /// The kind.
        kind: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The idempotency key is empty or too long.
    #[error("an idempotency key has 1 to {most} bytes")]
    BadKey {
        /// The bound.
        most: usize,
    },
    /// The idempotency key was used for something else.
    #[error("the idempotency key {key} belongs to operation {id}, which is another request")]
    KeyReused {
        /// The key.
        key: String,
        /// Whose it is.
        id: OperationId,
    },
    /// It has ended: nothing to cancel.
    #[error("operation {id} has ended already")]
    Ended {
        /// Which.
        id: OperationId,
    },
    /// It left nothing behind: nothing to clean up or to give up.
    #[error("operation {id} has left nothing behind")]
    NothingLeft {
        /// Which.
        id: OperationId,
    },
    /// It is written anew faster than it can be asked something.
    #[error("operation {id} changes too fast; try again")]
    Contended {
        /// Which.
        id: OperationId,
    },
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
