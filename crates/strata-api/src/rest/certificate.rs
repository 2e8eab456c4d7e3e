//! A certificate that was issued, and what to revoke.

use serde::{Deserialize, Serialize};

/// A certificate that was issued and has not expired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Its serial in lower-case hexadecimal digits, which is its id.
    pub serial: String,
    /// Whom it names.
    pub name: String,
    /// `admin`, `operator`, `viewer` or `node`.
    pub role: String,
    /// SHA-256 of its public key, in hexadecimal.
    pub key: String,
    /// When it was signed.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub issued_at: String,
    /// When it ends.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub expires_at: String,
    /// Who had it issued: an admin, a join token, its holder, the server.
    #[serde(default)]
    pub issued_by: String,
    /// The serial of the one it was renewed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether it is refused.
    #[serde(default)]
    pub revoked: bool,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub revoked_at: Option<String>,
    /// Who revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
    /// In words, why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What to revoke: a serial, a key, or a name with its role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeRequest {
    /// This certificate, what it was renewed from, and what was renewed from
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Every certificate of the key with this SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Every certificate that this name has now, with `role`. Also those that
    /// there is no record of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `admin`, `operator`, `viewer` or `node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// In words, why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RevokeResult {
    /// How many of the certificates that there are records of.
    pub certificates: usize,
}
