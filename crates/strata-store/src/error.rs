//! What can go wrong, by what the caller can do.

use crate::{LeaseId, Revision};

/// Why a store did not do what was requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A condition did not hold; nothing was written. Look and decide again.
    #[error("{key} was changed meanwhile")]
    Conflict {
        /// What the condition was about.
        key: String,
    },
    /// The requested past is dropped. List and go on from there.
    #[error("changes are remembered from revision {oldest} on only")]
    Compacted {
        /// The oldest revision to watch from.
        oldest: Revision,
    },
    /// The lease has ended.
    #[error("there is no lease {}", .0.0)]
    NoSuchLease(LeaseId),
    /// The request is wrong, whatever the store holds: it is a bug.
    #[error("{0}")]
    Invalid(String),
    /// It may work later. Whether it had its effect is not known.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// The store is broken or full, and takes nothing until that is mended.
    /// Nothing of it was done, unless the file could not even be read again.
    #[error("the store cannot be used: {0}")]
    Broken(String),
}
