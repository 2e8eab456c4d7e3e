//! TLS as it is used everywhere: one crypto provider, 1.3 before 1.2, HTTP/2
//! before HTTP/1.1, and no session resumption. A resumed session would carry
//! an old certificate past the check of its expiry; connections here live
//! long, so a full handshake for each costs nothing worth having.

use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::trust::TrustVerifier;
use crate::verifier::{KindVerifier, PinnedVerifier};
use crate::{Clock, Expect, Fingerprint, LiveIdentity, LiveTrust};

/// TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The CA to trust is not one.
    #[error("the CA certificate is not PEM")]
    CaNotPem,
    /// rustls rejected the credentials.
    #[error("TLS cannot be set up")]
    Config(#[from] rustls::Error),
    /// The CA cannot be used to check others.
    #[error("the CA certificate cannot be used")]
    Verifier(#[from] VerifierBuilderError),
}

/// Makes the one crypto provider the default of this process, for libraries
/// that need a default. It may be called any number of times.
pub fn install_crypto_provider() {
    // The only failure is that there is one already.
    let _ = aws_lc_rs::default_provider().install_default();
}

/// For a port that only serves holders of a certificate of this CA.
pub fn server_config_required_client(
    ca_pem: &str,
    identity: Arc<LiveIdentity>,
    clock: Clock,
) -> Result<Arc<ServerConfig>, TlsError> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(ca_pem)?, provider()).build()?;
    server_config(verifier, identity, clock)
}

/// For a port where a caller may also come without a certificate, and prove
/// itself by a token. A certificate of another CA is refused all the same.
pub fn server_config_optional_client(
    ca_pem: &str,
    identity: Arc<LiveIdentity>,
    clock: Clock,
) -> Result<Arc<ServerConfig>, TlsError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(ca_pem)?, provider())
        .allow_unauthenticated()
        .build()?;
    server_config(verifier, identity, clock)
}

/// For a port whose roots are exchanged while it serves. A caller may come
/// without a certificate: it proves itself by a token, or gets an answer that
/// says what is missing, where the end of a handshake would say nothing.
pub fn server_config_with_trust(
    trust: Arc<LiveTrust>,
    identity: Arc<LiveIdentity>,
    clock: Clock,
) -> Result<Arc<ServerConfig>, TlsError> {
    let verifier = TrustVerifier { trust };
    server_config(Arc::new(verifier), identity, clock)
}

/// For calling: trusts this CA alone, and of its certificates only the kind
/// that is expected. Without an identity the caller needs a token.
pub fn client_config(
    ca_pem: &str,
    identity: Option<Arc<LiveIdentity>>,
    expect: Expect,
    clock: Clock,
) -> Result<ClientConfig, TlsError> {
    let (roots, provider) = (roots(ca_pem)?, provider());
    let web = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone());
    let verifier = KindVerifier {
        web: web.build()?,
        roots,
        algorithms: provider.signature_verification_algorithms,
        expect,
    };
    let builder = ClientConfig::builder_with_details(provider, Arc::new(clock))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(finish_client(match identity {
        Some(identity) => builder.with_client_cert_resolver(identity),
        None => builder.with_no_client_auth(),
    }))
}

/// For joining: trusts the CA whose fingerprint the join token carries.
pub fn joining_client_config(
    fingerprint: Fingerprint,
    clock: Clock,
) -> Result<ClientConfig, TlsError> {
    let verifier = PinnedVerifier {
        fingerprint,
        provider: provider(),
    };
    Ok(finish_client(
        ClientConfig::builder_with_details(provider(), Arc::new(clock))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth(),
    ))
}

fn server_config(
    verifier: Arc<dyn ClientCertVerifier>,
    identity: Arc<LiveIdentity>,
    clock: Clock,
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(clock))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(identity);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn finish_client(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    config
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

pub(crate) fn roots(ca_pem: &str) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.map_err(|_| TlsError::CaNotPem)?)?;
    }
    Ok(Arc::new(roots))
}
