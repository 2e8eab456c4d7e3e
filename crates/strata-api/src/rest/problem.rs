//! The error body: RFC 9457 problem details with a stable code.

use serde::{Deserialize, Serialize};

/// Problem details, RFC 9457.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:strata:error:` followed by the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status as text.
    pub title: String,
    /// The HTTP status code.
    pub status: u16,
    /// What failed and why.
    pub detail: String,
    /// Stable code, the same on REST and gRPC: `invalid`, `not_found`,
    /// `already_exists`, `wrong_state`, `exhausted`, `unauthenticated`,
    /// `permission_denied`, `unavailable`, `aborted`, `internal`.
    pub code: String,
    /// The field that is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
