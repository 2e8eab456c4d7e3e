//! The name of an operation: a UUID that sorts by the time it was made, so a
//! listing of the store is in order of age.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The name of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationId(Uuid);

/// A text that names no operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the id of an operation")]
pub struct BadOperationId {
    pub text: String,
}

impl OperationId {
    /// A name that nothing had before.
    pub(crate) fn fresh() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for OperationId {
    type Err = BadOperationId;

    fn from_str(text: &str) -> Result<Self, BadOperationId> {
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| BadOperationId { text: text.into() })
    }
}
