//! The caller, as proven: by a certificate of our CA, by a token, or by being a
//! certain user on the other end of a Unix socket.

use std::fmt;

use jiff::Timestamp;
use strata_types::{Label, Role};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::issue::ORGANIZATION;
use crate::{Name, NameError, Validity};

/// A principal whose identity was proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name in the certificate or of the token; `root` on a socket.
    pub name: Name,
    /// What decides what it may do.
    pub role: Role,
    /// The projects it is limited to; all when none are given.
    pub projects: Option<Vec<Label>>,
    /// How it was proven.
    pub proof: Proof,
    /// When the proof ends, where it does.
    pub expires_at: Option<Timestamp>,
}

/// How a caller has proven itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It holds the key of a certificate that our CA signed.
    Certificate,
    /// It knows the secret of an API token.
    Token,
    /// The kernel vouches for its user on a Unix socket.
    Socket,
    /// The server vouches for it, on the node's own connection to it.
    Server,
}

impl Proof {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Token => "token",
            Self::Socket => "socket",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a certificate names no caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not X.509 at all.
    #[error("it is not an X.509 certificate")]
    Malformed,
    #[error("its common name {0}")]
    Name(#[from] NameError),
    /// Two names are no name.
    #[error("it has {0} common names, not one")]
    Names(usize),
    /// An organization that begins like ours and is no role.
    #[error("it has no known role")]
    UnknownRole,
    /// No role, or several.
    #[error("it has {0} roles, not one")]
    Roles(usize),
    /// Made for serving, or for nothing.
    #[error("it was not issued for callers")]
    NotForCallers,
}

/// The caller that a certificate names. Whether our CA signed it, and whether
/// it is still good, is for TLS to check before.
pub fn caller_from_certificate(der: &[u8]) -> Result<Caller, CertificateError> {
    let certificate = parse_certificate(der)?;
    if !certificate.calls {
        return Err(CertificateError::NotForCallers);
    }
    let [name] = certificate.names.as_slice() else {
        return Err(CertificateError::Names(certificate.names.len()));
    };
    let [organization] = certificate.organizations.as_slice() else {
        return Err(CertificateError::Roles(certificate.organizations.len()));
    };
    Ok(Caller {
        name: name.parse()?,
        role: organization
            .parse()
            .map_err(|_| CertificateError::UnknownRole)?,
        projects: None,
        proof: Proof::Certificate,
        expires_at: Some(certificate.validity.not_after),
    })
}

/// The parsed fields of a certificate.
pub(crate) struct Parsed {
    /// The whole public key, as the certificate writes it.
    pub(crate) public_key: Vec<u8>,
    /// In lower-case hexadecimal digits.
    pub(crate) serial: String,
    pub(crate) validity: Validity,
    pub(crate) names: Vec<String>,
    /// What follows `strata:` in every organization that begins so.
    pub(crate) organizations: Vec<String>,
    /// May be used to call.
    pub(crate) calls: bool,
    /// SHA-256 of the name of the root that signed it, in hexadecimal.
    pub(crate) issuer: String,
    /// The same of its own name.
    pub(crate) subject: String,
}

pub(crate) fn parse_certificate(der: &[u8]) -> Result<Parsed, CertificateError> {
    let malformed = |_| CertificateError::Malformed;
    let (rest, certificate) =
        X509Certificate::from_der(der).map_err(|_| CertificateError::Malformed)?;
    if !rest.is_empty() {
        return Err(CertificateError::Malformed);
    }
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute
            .as_str()
            .map(str::to_owned)
            .map_err(|_| CertificateError::Malformed)
    };
    let names = subject
        .iter_common_name()
        .map(text)
        .collect::<Result<_, _>>()?;
    let organizations: Vec<String> = subject
        .iter_organization()
        .map(text)
        .collect::<Result<_, _>>()?;
    let validity = certificate.validity();
    let calls = certificate.extensions().iter().any(|extension| {
        matches!(extension.parsed_extension(), ParsedExtension::ExtendedKeyUsage(usage) if usage.client_auth)
    });
    let hash = |name: &[u8]| crate::Fingerprint::of(name).to_string();
    Ok(Parsed {
        issuer: hash(certificate.issuer().as_raw()),
        subject: hash(subject.as_raw()),
        public_key: certificate.public_key().raw.to_vec(),
        serial: crate::fingerprint::hex(certificate.raw_serial()),
        validity: Validity {
            not_before: Timestamp::from_second(validity.not_before.timestamp())
                .map_err(malformed)?,
            not_after: Timestamp::from_second(validity.not_after.timestamp()).map_err(malformed)?,
        },
        names,
        organizations: organizations
            .iter()
            .filter_map(|organization| organization.strip_prefix(ORGANIZATION))
            .map(str::to_owned)
            .collect(),
        calls,
    })
}

/// The one certificate of a PEM text.
pub fn certificate_from_pem(pem: &str) -> Option<Vec<u8>> {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject as _;
    let mut all = CertificateDer::pem_slice_iter(pem.as_bytes());
    let (first, second) = (all.next()?.ok()?, all.next());
    second.is_none().then(|| first.to_vec())
}
