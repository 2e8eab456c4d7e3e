//! What a client holds: the CA to trust, its own certificate, its key. On
//! disk three files, so that any tool can use them.
//!
//! Replacing certificate and key is two renames, and a crash may fall between
//! them. Both are staged first; the key moves before the certificate. So a
//! later reader either finds a pair, or finds the certificate that belongs to
//! the key still staged, and completes the move.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::caller::parse_certificate;
use crate::files::{self, FileError};
use crate::{Caller, CertificateError, CertificateId, Validity, caller_from_certificate};

const CA: &str = "ca.crt";
const CERTIFICATE: &str = "client.crt";
const STAGED: &str = "client.crt.next";
const KEY: &str = "client.key";
/// Reads of files that another process replaces meanwhile.
const MAX_READS: usize = 40;
const READ_INTERVAL: Duration = Duration::from_millis(5);

/// A private key in PEM. Printing it shows nothing.
#[derive(Clone)]
pub struct PrivateKeyPem(Box<str>);

impl PrivateKeyPem {
    /// Takes a key in PEM.
    pub fn new(pem: impl Into<String>) -> Self {
        Self(pem.into().into())
    }

    /// The key in `file`, which is for its owner alone; made if there is none.
    pub fn open(file: &Path) -> Result<Self, CredentialsError> {
        if files::read_private(file)?.is_none() {
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
            let key = key.map_err(|_| CredentialsError::Key)?;
            files::create(file, &key.serialize_pem(), files::PRIVATE)?;
        }
        // Read back: another process may have been faster.
        let pem = files::read_private(file)?.unwrap_or_default();
        KeyPair::from_pem(&pem).map_err(|_| CredentialsError::Key)?;
        Ok(Self::new(pem))
    }

    /// The key itself, for the few places that need it: TLS and the file.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKeyPem(hidden)")
    }
}

/// The CA to trust, a certificate of it, and the key of that certificate.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub ca_pem: String,
    pub certificate_pem: String,
    pub key_pem: PrivateKeyPem,
}

/// Credentials could not be kept or are not what they should be.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// One of the files.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is not there.
    #[error("{0} is missing")]
    Missing(PathBuf),
    /// The certificate is not one.
    #[error("the certificate cannot be used: {0}")]
    Certificate(#[from] CertificateError),
    /// The key is not one.
    #[error("the private key cannot be read")]
    Key,
    /// Certificate and key are of different pairs.
    #[error("the certificate does not belong to the private key")]
    Mismatch,
}

impl Credentials {
    /// Writes `{ca.crt,client.crt,client.key}` into `directory`, for the owner
    /// alone, replacing what is there.
    pub fn write(&self, directory: &Path) -> Result<(), CredentialsError> {
        files::create_private_dir(directory)?;
        files::replace(&directory.join(CA), &self.ca_pem, files::PRIVATE)?;
        files::replace(
            &directory.join(STAGED),
            &self.certificate_pem,
            files::PRIVATE,
        )?;
        files::replace(&directory.join(KEY), self.key_pem.expose(), files::PRIVATE)?;
        finish(directory)?;
        Ok(())
    }

    /// Replaces the roots that credentials in `directory` trust, and nothing else.
    pub fn write_ca(directory: &Path, ca_pem: &str) -> Result<(), CredentialsError> {
        Ok(files::replace(&directory.join(CA), ca_pem, files::PRIVATE)?)
    }

    /// Reads what [`Credentials::write`] wrote, and completes it where it was
    /// interrupted. The files are replaced one by one: those of two pairs are
    /// read again, since a write may be under way.
    pub fn read(directory: &Path) -> Result<Self, CredentialsError> {
        for _ in 1..MAX_READS {
            match Self::read_once(directory) {
                Err(CredentialsError::Mismatch) => std::thread::sleep(READ_INTERVAL),
                read => return read,
            }
        }
        Self::read_once(directory)
    }

    fn read_once(directory: &Path) -> Result<Self, CredentialsError> {
        let must = |name: &str| {
            let path = directory.join(name);
            files::read(&path)?.ok_or(CredentialsError::Missing(path))
        };
        let key = directory.join(KEY);
        let key_pem = files::read_private(&key)?.ok_or(CredentialsError::Missing(key))?;
        let read = |certificate_pem| Self {
            ca_pem: String::new(),
            certificate_pem,
            key_pem: PrivateKeyPem::new(&*key_pem),
        };
        let mut credentials = match files::read(&directory.join(STAGED))?.map(read) {
            Some(staged) if staged.check().is_ok() => {
                finish(directory)?;
                staged
            }
            _ => read(must(CERTIFICATE)?),
        };
        credentials.check()?;
        credentials.ca_pem = must(CA)?;
        Ok(credentials)
    }

    /// When the certificate begins and ends.
    pub fn validity(&self) -> Result<Validity, CredentialsError> {
        Ok(parse_certificate(&self.certificate_der()?)?.validity)
    }

    /// The caller that the certificate names.
    pub fn caller(&self) -> Result<Caller, CredentialsError> {
        Ok(caller_from_certificate(&self.certificate_der()?)?)
    }

    /// What the certificate is known by.
    pub fn certificate_id(&self) -> Result<CertificateId, CredentialsError> {
        Ok(CertificateId::of(&self.certificate_der()?)?)
    }

    fn certificate_der(&self) -> Result<CertificateDer<'static>, CredentialsError> {
        CertificateDer::from_pem_slice(self.certificate_pem.as_bytes())
            .map_err(|_| CredentialsError::Certificate(CertificateError::Malformed))
    }

    fn check(&self) -> Result<(), CredentialsError> {
        let certificate = parse_certificate(&self.certificate_der()?)?;
        let key = KeyPair::from_pem(self.key_pem.expose()).map_err(|_| CredentialsError::Key)?;
        if certificate.public_key != key.subject_public_key_info() {
            return Err(CredentialsError::Mismatch);
        }
        Ok(())
    }
}

/// Moves the staged certificate into its place.
fn finish(directory: &Path) -> Result<(), FileError> {
    let path = directory.join(CERTIFICATE);
    match fs::rename(directory.join(STAGED), &path) {
        Ok(()) => files::sync_parent_dir(&path),
        // Another reader was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(files::write_error(&path, source)),
    }
}
