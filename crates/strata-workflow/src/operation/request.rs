//! A request to an operation: by whom, and when.

use serde::{Deserialize, Serialize};

/// A request of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The caller who requested it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}
