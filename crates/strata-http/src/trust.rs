//! Which servers to trust.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Where systems keep the CAs that they trust.
pub fn system_bundles() -> Vec<PathBuf> {
    let known = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
    ];
    known.map(PathBuf::from).into()
}

/// A certificate that cannot be read, or a file without any.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct TrustError {
    pub what: String,
    pub why: String,
}

impl TrustError {
    fn new(what: &str, why: &dyn std::fmt::Display) -> Self {
        Self {
            what: what.to_owned(),
            why: why.to_string(),
        }
    }
}

/// Whom to trust as a server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The CAs of the first of these bundles that exists, and these: PEM.
    System {
        bundles: Vec<PathBuf>,
        authorities: Vec<String>,
    },
    /// The CAs in this file alone.
    File(PathBuf),
    /// Anyone: who is in between has the credentials.
    Anyone,
}

impl Default for Trust {
    fn default() -> Self {
        Self::System {
            bundles: system_bundles(),
            authorities: Vec::new(),
        }
    }
}

impl Trust {
    /// The settings of TLS for a client without a certificate of its own.
    pub fn config(&self) -> Result<ClientConfig, TrustError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TrustError::new("TLS", &error))?;
        let roots = match self {
            Self::System {
                bundles,
                authorities,
            } => {
                let mut roots = system(bundles)?;
                for authority in authorities {
                    let found = CertificateDer::pem_slice_iter(authority.as_bytes());
                    add(&mut roots, "the configured CA", found)?;
                }
                roots
            }
            Self::File(path) => {
                let what = path.display().to_string();
                let mut roots = RootCertStore::empty();
                add(&mut roots, &what, in_file(path)?)?;
                if roots.is_empty() {
                    return Err(TrustError::new(&what, &"there is no certificate in it"));
                }
                roots
            }
            Self::Anyone => {
                let builder = builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)));
                return Ok(builder.with_no_client_auth());
            }
        };
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

type PemResult = Result<CertificateDer<'static>, rustls_pki_types::pem::Error>;

fn in_file(path: &Path) -> Result<impl Iterator<Item = PemResult>, TrustError> {
    CertificateDer::pem_file_iter(path)
        .map_err(|error| TrustError::new(&path.display().to_string(), &error))
}

fn system(bundles: &[PathBuf]) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = bundles.iter().find(|path| path.is_file()) {
        // One odd certificate in the system's bundle is no reason to stop.
        roots.add_parsable_certificates(in_file(path)?.flatten());
    }
    Ok(roots)
}

fn add(
    roots: &mut RootCertStore,
    what: &str,
    found: impl Iterator<Item = PemResult>,
) -> Result<(), TrustError> {
    for certificate in found {
        let certificate = certificate.map_err(|error| TrustError::new(what, &error))?;
        roots
            .add(certificate)
            .map_err(|error| TrustError::new(what, &error))?;
    }
    Ok(())
}

/// Takes every certificate. That the other side has its key is still proven.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_a_certificate_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "nothing").unwrap();
        let refused = Trust::File(path).config().unwrap_err().to_string();
        assert!(
            refused.ends_with("there is no certificate in it"),
            "{refused}"
        );
        let gone = Trust::File(dir.path().join("gone"));
        assert!(gone.config().is_err());
    }

    #[test]
    fn system_bundle_may_be_absent_and_configured_ca_must_be_readable() {
        let trust = |authority: &str| Trust::System {
            bundles: vec!["/nonexistent".into()],
            authorities: vec![authority.into()],
        };
        trust("").config().unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(trust(broken).config().is_err());
    }
}
