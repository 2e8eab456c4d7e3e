//! What went wrong, as it is told: RFC 9457 with a code that stays the same.

use serde::{Deserialize, Serialize};

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:strata:error:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and why.
    pub detail: String,
    /// Of this kind on every face: `invalid`, `not_found`, `already_exists`,
    /// `wrong_state`, `exhausted`, `unauthenticated`, `permission_denied`,
    /// `unavailable`, `aborted`, `internal`.
    pub code: String,
    /// The field at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
