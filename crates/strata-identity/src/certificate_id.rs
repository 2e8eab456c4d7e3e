//! What one certificate is known by: its serial, the hash of its key, the name
//! of its holder and when it was issued. Revocation and the binding of nodes to
//! their keys go by these, never by the name alone: two certificates can name
//! the same holder, and only one of them may be the holder's.

use jiff::Timestamp;
use strata_types::Role;

use crate::caller::{CertificateError, Parsed, parse_certificate};
use crate::fingerprint::Fingerprint;
use crate::issue::CLOCK_SKEW;
use crate::{Name, Validity};

/// What one certificate of a caller is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateId {
    /// Lower-case hexadecimal digits, as `openssl x509 -serial` has them in
    /// upper case.
    pub serial: String,
    /// SHA-256 of the public key (SubjectPublicKeyInfo), in hexadecimal.
    pub key: String,
    pub name: Name,
    /// Role of the holder.
    pub role: Role,
    /// When it was signed, to the second.
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    /// Which root signed it: SHA-256 of the root's name, in hexadecimal. Empty
    /// where it was not recorded.
    pub issuer: String,
}

impl CertificateId {
    /// Of a certificate that names a caller. Whether our CA signed it is for
    /// TLS to check before.
    pub fn of(der: &[u8]) -> Result<Self, CertificateError> {
        Self::from_parsed(&parse_certificate(der)?)
    }

    pub(crate) fn from_parsed(certificate: &Parsed) -> Result<Self, CertificateError> {
        let [name] = certificate.names.as_slice() else {
            return Err(CertificateError::Names(certificate.names.len()));
        };
        let [role] = certificate.organizations.as_slice() else {
            return Err(CertificateError::Roles(certificate.organizations.len()));
        };
        let Validity {
            not_before,
            not_after,
        } = certificate.validity;
        Ok(Self {
            serial: certificate.serial.clone(),
            key: Fingerprint::of(&certificate.public_key).to_string(),
            name: name.parse()?,
            role: role.parse().map_err(|_| CertificateError::UnknownRole)?,
            // Certificates begin a little before they are signed.
            issued_at: not_before.checked_add(CLOCK_SKEW).unwrap_or(not_before),
            expires_at: not_after,
            issuer: certificate.issuer.clone(),
        })
    }
}

/// The credential that a request came with, for the code that ends the request
/// early or records it. In the extensions of requests whose caller has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    Certificate(std::sync::Arc<CertificateId>),
    /// An API token, by its id.
    Token {
        /// What it is listed and revoked by.
        id: String,
    },
}

impl std::fmt::Display for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Certificate(id) => write!(f, "certificate {}", id.serial),
            Self::Token { id } => write!(f, "token {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ca, CertificateId, CertificateSpec, certificate_from_pem};
    use strata_types::Role;

    #[test]
    fn two_certificates_of_one_name_differ_in_serial_and_key() {
        let directory = tempfile::tempdir().unwrap();
        let ca = Ca::open(&directory.path().join("ca")).unwrap();
        let id = || {
            let spec = CertificateSpec::caller("n1".parse().unwrap(), Role::Node);
            let issued = ca.issue(&spec).unwrap();
            let der = certificate_from_pem(&issued.certificate_pem).unwrap();
            CertificateId::of(&der).unwrap()
        };
        let before = ca.clock().now();
        let (one, other) = (id(), id());
        assert_eq!((one.name.as_str(), one.role), ("n1", Role::Node));
        assert_ne!(one.serial, other.serial);
        assert_ne!(one.key, other.key);
        assert_eq!((one.serial.len(), one.key.len()), (32, 64));
        let age = one.issued_at.as_second() - before.as_second();
        assert!((0..=1).contains(&age), "{age}");
    }
}
