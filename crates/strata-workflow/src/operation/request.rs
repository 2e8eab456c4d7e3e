//! Who wanted something of an operation, and when.

use serde::{Deserialize, Serialize};

/// A wish of somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Whose.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}
