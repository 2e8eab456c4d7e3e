//! Whom to trust: the system's authorities, one of a file, or, when somebody
//! said so, anybody.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::HttpError;

const SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Whom to trust. By default, the authorities that the system trusts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// Trust this authority alone: a file with certificates, as PEM.
    pub(crate) ca_file: Option<PathBuf>,
    /// Trust anybody, with TLS or without. Whoever is in between then has the
    /// credentials.
    pub(crate) insecure: bool,
}

pub(super) fn config(trust: &Trust) -> Result<ClientConfig, HttpError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| settings("TLS", &error))?;
    if trust.insecure {
        let anybody = Arc::new(Anybody(provider));
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(anybody);
        return Ok(builder.with_no_client_auth());
    }
    let roots = match &trust.ca_file {
        Some(file) => named(file)?,
        None => system(),
    };
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn named(file: &Path) -> Result<RootCertStore, HttpError> {
    let what = file.display().to_string();
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(file).map_err(|error| settings(&what, &error))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| settings(&what, &error))?;
        roots
            .add(certificate)
            .map_err(|error| settings(&what, &error))?;
    }
    if roots.is_empty() {
        return Err(settings(&what, &"there is no certificate in it"));
    }
    Ok(roots)
}

fn system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let bundle = SYSTEM.iter().find(|path| Path::new(path).is_file());
    if let Some(found) = bundle.and_then(|path| CertificateDer::pem_file_iter(path).ok()) {
        // One odd certificate in the system's bundle is no reason to stop.
        roots.add_parsable_certificates(found.flatten());
    }
    roots
}

fn settings(what: &str, why: &dyn std::fmt::Display) -> HttpError {
    HttpError::Settings {
        what: what.to_owned(),
        why: why.to_string(),
    }
}

/// Takes every certificate. That the other side has its key is still proven.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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
