//! The certificate authority of the installation, and its rotation.

use serde::{Deserialize, Serialize};

/// The certificate authority: its roots, and what depends on the old root
/// during a rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CertificateAuthority {
    /// `stable`: one root. `introduced`: a second root is trusted and signs
    /// nothing. `issuing`: the second root signs, the first is still trusted.
    pub phase: String,
    /// The current root; the only one while `stable`.
    pub current: CaRoot,
    /// The next root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<CaRoot>,
    /// Number of nodes and certificates that still depend on the old root.
    pub remaining: usize,
    /// Nodes that depend on the old root.
    pub nodes: Vec<String>,
    /// Serial numbers of certificates that depend on the old root; at most
    /// 1,000.
    pub certificates: Vec<String>,
    /// The trusted roots, in PEM.
    pub pem: String,
}

/// A root certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CaRoot {
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
    /// Expiry time.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub expires_at: String,
}

/// A step of a rotation, without options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaStepRequest {}

/// The last step of a rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetireCaRequest {
    /// Retire the root although nodes and certificates depend on it; they are
    /// rejected from then on.
    #[serde(default)]
    pub force: bool,
}
