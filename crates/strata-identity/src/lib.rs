//! Authentication and authorization: the embedded CA, certificates, API and
//! join tokens, and the one table of roles that every API uses.
//!
//! Nothing here implements a protocol or runs a task. `strata-transport`
//! carries these decisions to the wire; APIs see a checked [`Caller`] and no
//! more.
#![forbid(unsafe_code)]

mod ca;
mod caller;
mod certificate_id;
mod clock;
mod credentials;
mod files;
mod fingerprint;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod host;
mod issue;
mod live;
mod mac;
mod name;
pub mod policy;
mod request;
mod revocation;
mod root;
mod rotation;
mod tls;
mod token;
mod trust;
mod verifier;

pub use ca::{Ca, CaError, RootInfo, Rotation};
pub use caller::{Caller, CertificateError, Proof, caller_from_certificate, certificate_from_pem};
pub use certificate_id::{CertificateId, Credential};
pub use clock::Clock;
pub use credentials::{Credentials, CredentialsError, PrivateKeyPem};
pub use files::{FileError, in_full};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use host::{Host, HostError, node_host};
pub use issue::{CertificateSpec, Issued, TtlError, Validity, renew_at};
pub use live::{LiveError, LiveIdentity};
pub use mac::{hmac_sha256, is_hmac_sha256};
pub use name::{Name, NameError};
pub use request::{CertificateRequest, RequestError};
pub use revocation::{Revocation, Revocations, Revoked};
pub use rotation::{RotationPhase, lock_ca};
pub use tls::{
    TlsError, client_config, install_crypto_provider, joining_client_config,
    server_config_optional_client, server_config_required_client, server_config_with_trust,
};
pub use token::{JoinBinding, JoinToken, TokenError, TokenInfo, TokenKind, TokenText, Tokens};
pub use trust::LiveTrust;
pub use verifier::Expect;
