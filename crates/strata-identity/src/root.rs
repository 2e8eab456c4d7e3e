//! One root of the CA: a key, which only its owner may read, and its
//! certificate, which is public.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData as _,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::caller::parse_certificate;
use crate::files;
use crate::issue::{CLOCK_SKEW, serial, set_validity, subject, whole_second};
use crate::{CaError, Clock, Fingerprint, Validity};

/// What the first root of an installation is called. Those that follow have
/// another name each, so that a verifier which looks roots up by name finds
/// the one that signed.
const FIRST_NAME: &str = "Strata CA";
const LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// A root that signs.
pub(crate) struct Root {
    pub(crate) issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) validity: Validity,
    /// What certificates of this root have as [`crate::CertificateId::issuer`].
    pub(crate) id: String,
}

impl Root {
    /// The root in two files, made where there is none. Each file is created
    /// exclusively, the key first, so that a crash between the two, or two
    /// processes at once, still end in one matching pair. What is never done is
    /// to make a new key beside an old certificate: everything that trusts the
    /// old one would stop working silently.
    pub(crate) fn open_or_create(
        key: &Path,
        certificate: &Path,
        clock: &Clock,
    ) -> Result<Self, CaError> {
        open_key(key, certificate)?;
        let pair = read_key(key)?;
        if files::read(certificate)?.is_none() {
            let pem = self_signed(&pair, FIRST_NAME, clock)?;
            files::create(certificate, &pem, files::PUBLIC)?;
        }
        Self::open(key, certificate)
    }

    /// Makes a further root: the key first.
    pub(crate) fn create(key: &Path, certificate: &Path, clock: &Clock) -> Result<Self, CaError> {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        files::replace(key, &pair.serialize_pem(), files::PRIVATE)?;
        let digits = Fingerprint::of(&pair.subject_public_key_info()).to_string();
        let name = format!("{FIRST_NAME} {}", digits.get(..8).unwrap_or(&digits));
        let pem = self_signed(&pair, &name, clock)?;
        files::replace(certificate, &pem, files::PUBLIC)?;
        Self::open(key, certificate)
    }

    /// The root in two files that are there.
    pub(crate) fn open(key: &Path, certificate: &Path) -> Result<Self, CaError> {
        let damaged = |reason: &str| CaError::Damaged {
            path: certificate.to_owned(),
            reason: reason.to_owned(),
        };
        let pair = read_key(key)?;
        let pem = files::read(certificate)?.unwrap_or_default();
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| damaged("not a PEM certificate"))?;
        let parsed = parse_certificate(&der).map_err(|error| damaged(&error.to_string()))?;
        if parsed.public_key != pair.subject_public_key_info() {
            let key = key.file_name().unwrap_or_default().to_string_lossy();
            return Err(damaged(&format!("it is not the certificate of {key}")));
        }
        Ok(Self {
            validity: parsed.validity,
            fingerprint: Fingerprint::of(&der),
            id: parsed.subject,
            issuer: Issuer::from_ca_cert_der(&der, pair)?,
            pem,
        })
    }
}

fn open_key(path: &Path, certificate: &Path) -> Result<(), CaError> {
    if files::read_private(path)?.is_none() {
        if files::read(certificate)?.is_some() {
            return Err(CaError::KeyLost(path.into()));
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        // Read back later: another process may have been faster.
        files::create(path, &key.serialize_pem(), files::PRIVATE)?;
    }
    Ok(())
}

fn read_key(path: &Path) -> Result<KeyPair, CaError> {
    let pem = files::read_private(path)?.unwrap_or_default();
    KeyPair::from_pem(&pem).map_err(|error| CaError::Damaged {
        path: path.into(),
        reason: error.to_string(),
    })
}

fn self_signed(key: &KeyPair, name: &str, clock: &Clock) -> Result<String, CaError> {
    let now = whole_second(clock.now());
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(name, "ca");
    params.serial_number = Some(serial());
    set_validity(
        &mut params,
        Validity {
            not_before: now.checked_sub(CLOCK_SKEW).unwrap_or(now),
            not_after: now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX),
        },
    );
    // It signs leaves and nothing that signs again.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params.self_signed(key)?.pem())
}
