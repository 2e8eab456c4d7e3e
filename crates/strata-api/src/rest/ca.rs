//! The CA of the installation, and its rotation.

use serde::{Deserialize, Serialize};

/// The CA: its roots, and what depends on the old one while it is rotated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CertificateAuthority {
    /// `stable`: there is one root. `introduced`: a second one is trusted, and
    /// signs nothing. `issuing`: the second one signs, the first is trusted.
    pub phase: String,
    /// The root there was; the only one while `stable`.
    pub current: CaRoot,
    /// The root to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<CaRoot>,
    /// How many nodes and certificates still depend on the old root.
    pub remaining: usize,
    /// The nodes among them.
    pub nodes: Vec<String>,
    /// The serials of the certificates among them, 1,000 at most.
    pub certificates: Vec<String>,
    /// What is trusted now, in PEM.
    pub pem: String,
}

/// A root of the CA.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CaRoot {
    /// SHA-256 of its certificate, in hexadecimal.
    pub fingerprint: String,
    /// When it ends.
    #[cfg_attr(feature = "schema", schema(format = DateTime))]
    pub expires_at: String,
}

/// A step of a rotation that needs nothing more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaStepRequest {}

/// The last step of a rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetireCaRequest {
    /// Although nodes and certificates depend on the old root: they are
    /// refused from then on.
    #[serde(default)]
    pub force: bool,
}
