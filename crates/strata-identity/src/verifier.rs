//! How a client verifies a server. That our CA signed the certificate and that
//! it names the host is not enough: every node holds a serving certificate of
//! the same CA, and a node that could pose as the control plane would be handed
//! bearer tokens. So the client states what it means to reach, and the
//! certificate must be of that kind.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::Fingerprint;
use crate::caller::parse_certificate;
use crate::issue::SERVER;

/// What a client means to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Server,
    Node,
    /// Either: for clients that bring no token, or look at both.
    Any,
}

impl Expect {
    fn check(self, end_entity: &CertificateDer<'_>) -> Result<(), Error> {
        let wanted = match self {
            Self::Server => SERVER,
            Self::Node => strata_types::Role::Node.as_str(),
            Self::Any => return Ok(()),
        };
        let certificate = parse_certificate(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if certificate.organizations == [wanted] {
            return Ok(());
        }
        Err(Error::InvalidCertificate(
            CertificateError::ApplicationVerificationFailure,
        ))
    }
}

/// Trusts one CA, and of it only what was expected.
///
/// A node's certificate names no loopback address, so that it does not pass for
/// the server there to clients that look at the name alone. A client that means
/// to reach a node, or does not mind, knows it by its kind instead.
#[derive(Debug)]
pub(crate) struct KindVerifier {
    pub(crate) web: Arc<WebPkiServerVerifier>,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    pub(crate) expect: Expect,
}

impl KindVerifier {
    /// A node of this CA on the machine of the client.
    fn verify_local_node(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.expect == Expect::Server || !is_loopback(server_name) {
            return Err(CertificateError::NotValidForName.into());
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        Expect::Node.check(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }
}

fn is_loopback(name: &ServerName<'_>) -> bool {
    match name {
        ServerName::DnsName(name) => name.as_ref().eq_ignore_ascii_case("localhost"),
        ServerName::IpAddress(address) => std::net::IpAddr::from(*address).is_loopback(),
        _ => false,
    }
}

impl ServerCertVerifier for KindVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.web
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let verified = match verified {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => self.verify_local_node(end_entity, intermediates, server_name, now)?,
            verified => verified?,
        };
        self.expect.check(end_entity)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.web
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.web
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.web.supported_verify_schemes()
    }
}

/// Trusts the CA of one fingerprint, found in what the server sends. For the
/// one call of a joining node, which knows nothing else yet.
#[derive(Debug)]
pub(crate) struct PinnedVerifier {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned = intermediates
            .iter()
            .find(|certificate| Fingerprint::of(certificate) == self.fingerprint)
            .ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(pinned.clone().into_owned())?;
        let roots = Arc::new(roots);
        let web = WebPkiServerVerifier::builder_with_provider(roots.clone(), self.provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        KindVerifier {
            web,
            roots,
            algorithms: self.provider.signature_verification_algorithms,
            expect: Expect::Server,
        }
        .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
