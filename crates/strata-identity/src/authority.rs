//! The embedded CA. One folder, two files: `ca.key`, which nobody but its
//! owner may read, and `ca.crt`, which everybody may have. Made at first use.
//!
//! Each file is created exclusively, the key first, so that a crash between
//! the two, or two processes at once, still end in one matching pair. What is
//! never done is to make a new key beside an old certificate: everything that
//! trusts the old one would stop working without a word.

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::caller::parse_certificate;
use crate::files::{self, FileError, in_full};
use crate::issue::{SKEW, serial, set_validity, subject, whole_second};
use crate::{
    CertificateRequest, CertificateSpec, Clock, Credentials, Fingerprint, Issued, PrivateKeyPem,
    Validity,
};

const KEY: &str = "ca.key";
const CERTIFICATE: &str = "ca.crt";
const LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// The CA could not be opened, or did not sign.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// One of its files.
    #[error(transparent)]
    File(#[from] FileError),
    /// A certificate without its key signs nothing.
    #[error("{0} is missing beside its certificate; put it back from a backup")]
    KeyLost(PathBuf),
    /// A file that is not what its name says.
    #[error("{path} does not hold what it should: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The CA's own certificate is over.
    #[error("the certificate authority ended at {0}")]
    Ended(Timestamp),
    /// The signing itself failed.
    #[error("cannot sign")]
    Sign(#[from] rcgen::Error),
}

impl From<AuthorityError> for strata_types::Error {
    fn from(error: AuthorityError) -> Self {
        match error {
            AuthorityError::Ended(_) => Self::wrong_state(error.to_string()),
            _ => Self::internal(in_full(&error)),
        }
    }
}

/// Signs certificates for one installation of the product.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
    fingerprint: Fingerprint,
    validity: Validity,
    clock: Clock,
}

impl Authority {
    /// The CA in `folder`, made if there is none.
    pub fn open(folder: &Path) -> Result<Self, AuthorityError> {
        Self::open_with_clock(folder, Clock::system())
    }

    /// Like [`Authority::open`], by another clock.
    pub fn open_with_clock(folder: &Path, clock: Clock) -> Result<Self, AuthorityError> {
        files::own_folder(folder)?;
        let key_path = folder.join(KEY);
        let certificate_path = folder.join(CERTIFICATE);
        let key = open_key(&key_path, &certificate_path)?;
        let ca_pem = open_certificate(&certificate_path, &key, &clock)?;

        let damaged = |reason: &str| AuthorityError::Damaged {
            path: certificate_path.clone(),
            reason: reason.to_owned(),
        };
        let der = CertificateDer::from_pem_slice(ca_pem.as_bytes())
            .map_err(|_| damaged("not a PEM certificate"))?;
        let certificate = parse_certificate(&der).map_err(|error| damaged(&error.to_string()))?;
        if certificate.public_key != key.subject_public_key_info() {
            return Err(damaged("it is not the certificate of ca.key"));
        }
        Ok(Self {
            validity: certificate.validity,
            fingerprint: Fingerprint::of(&der),
            issuer: Issuer::from_ca_cert_der(&der, key)?,
            ca_pem,
            clock,
        })
    }

    /// The CA's certificate, for everybody who is to trust it.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// What joining nodes know the CA by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// When the CA itself begins and ends.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The clock it goes by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Certifies the key of `request`.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        spec: &CertificateSpec,
    ) -> Result<Issued, AuthorityError> {
        self.certify(&request.key, spec)
    }

    /// Makes a key and certifies it, for holders on this machine.
    pub fn issue(&self, spec: &CertificateSpec) -> Result<Credentials, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let issued = self.certify(&key, spec)?;
        Ok(Credentials {
            ca_pem: self.ca_pem.clone(),
            certificate_pem: issued.certificate_pem,
            key_pem: PrivateKeyPem::new(key.serialize_pem()),
        })
    }

    fn certify(
        &self,
        key: &impl PublicKeyData,
        spec: &CertificateSpec,
    ) -> Result<Issued, AuthorityError> {
        let validity = spec.validity(self.clock.now(), self.validity)?;
        let certificate = spec.params(validity)?.signed_by(key, &self.issuer)?;
        Ok(Issued {
            certificate_pem: certificate.pem(),
            validity,
        })
    }
}

/// Its key is not for printing.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("fingerprint", &self.fingerprint)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

fn open_key(path: &Path, certificate: &Path) -> Result<KeyPair, AuthorityError> {
    if files::read_private(path)?.is_none() {
        if files::read(certificate)?.is_some() {
            return Err(AuthorityError::KeyLost(path.into()));
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        files::create(path, &key.serialize_pem(), files::PRIVATE)?;
    }
    // Read back: another process may have been faster.
    let pem = files::read_private(path)?.unwrap_or_default();
    KeyPair::from_pem(&pem).map_err(|error| AuthorityError::Damaged {
        path: path.into(),
        reason: error.to_string(),
    })
}

fn open_certificate(path: &Path, key: &KeyPair, clock: &Clock) -> Result<String, AuthorityError> {
    if let Some(pem) = files::read(path)? {
        return Ok(pem);
    }
    let now = whole_second(clock.now());
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("Strata CA", "ca");
    params.serial_number = Some(serial());
    set_validity(
        &mut params,
        Validity {
            not_before: now.checked_sub(SKEW).unwrap_or(now),
            not_after: now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX),
        },
    );
    // It signs leaves and nothing that signs again.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    files::create(path, &params.self_signed(key)?.pem(), files::PUBLIC)?;
    Ok(files::read(path)?.unwrap_or_default())
}
