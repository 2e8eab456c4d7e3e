//! Issued certificates, and requests to revoke them.

use serde::{Deserialize, Serialize};

/// An issued certificate that has not expired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Serial number in lower-case hexadecimal digits; also the ID.
    pub serial: String,
    /// Subject.
    pub name: String,
    /// Role: `admin`, `operator`, `viewer` or `node`.
    pub role: String,
    /// SHA-256 of the public key, in hexadecimal.
    pub key: String,
    /// Time of issue.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub issued_at: String,
    /// Expiry time.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub expires_at: String,
    /// Who requested it: an admin, a join token, its holder, the server.
    #[serde(default)]
    pub issued_by: String,
    /// Serial number of the certificate it renews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether it is revoked.
    #[serde(default)]
    pub revoked: bool,
    /// Time of revocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub revoked_at: Option<String>,
    /// Principal that revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
    /// Reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Certificates to revoke: by serial number, by key, or by name and role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeRequest {
    /// Serial number: revokes the certificate, those it renews and its
    /// renewals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// SHA-256 of a public key: revokes all its certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Name: with `role`, revokes all its present certificates, also those
    /// without a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Role: `admin`, `operator`, `viewer` or `node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of a revocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RevokeResult {
    /// Number of recorded certificates that were revoked.
    pub certificates: usize,
}
