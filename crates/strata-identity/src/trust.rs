//! The roots that a process trusts, exchanged while it serves: a listener reads
//! them for every handshake, and the auth layer for every request, so that what
//! is added counts at once and what is removed is refused at once.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;

use crate::caller::parse_certificate;
use crate::tls::{TlsError, provider, roots};

/// The roots that are trusted now, and news of them.
pub struct LiveTrust {
    current: ArcSwap<Trusted>,
    changed: watch::Sender<()>,
}

struct Trusted {
    pem: String,
    issuers: HashSet<String>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl LiveTrust {
    /// Trusts the roots of a PEM text.
    pub fn new(pem: &str) -> Result<Self, TlsError> {
        Ok(Self {
            current: ArcSwap::from_pointee(Trusted::read(pem)?),
            changed: watch::Sender::new(()),
        })
    }

    /// Trusts these roots instead; on failure those there were. Answers whether
    /// they are others.
    pub fn replace(&self, pem: &str) -> Result<bool, TlsError> {
        if self.current.load().pem == pem {
            return Ok(false);
        }
        self.current.store(Arc::new(Trusted::read(pem)?));
        self.changed.send_replace(());
        Ok(true)
    }

    /// The roots, in PEM.
    pub fn pem(&self) -> String {
        self.current.load().pem.clone()
    }

    /// Whether a certificate with this [`crate::CertificateId::issuer`], whose
    /// chain was verified when its connection was made, is still good.
    pub fn trusts(&self, issuer: &str) -> bool {
        self.current.load().issuers.contains(issuer)
    }

    /// Wakes whenever the roots change.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl fmt::Debug for LiveTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issuers = &self.current.load().issuers;
        f.debug_struct("LiveTrust")
            .field("issuers", issuers)
            .finish_non_exhaustive()
    }
}

impl Trusted {
    fn read(pem: &str) -> Result<Self, TlsError> {
        let roots = roots(pem)?;
        let mut issuers = HashSet::new();
        for der in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let der = der.map_err(|_| TlsError::CaNotPem)?;
            let root = parse_certificate(&der).map_err(|_| TlsError::CaNotPem)?;
            issuers.insert(root.subject);
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
        Ok(Self {
            pem: pem.to_owned(),
            issuers,
            verifier,
        })
    }
}

/// Verifies clients by the roots that are trusted at the time.
#[derive(Debug)]
pub(crate) struct TrustVerifier {
    pub(crate) trust: Arc<LiveTrust>,
}

impl TrustVerifier {
    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.trust.current.load().verifier.clone()
    }
}

impl ClientCertVerifier for TrustVerifier {
    /// A client without one is answered by the auth layer.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: clients of ours have one certificate, and the roots change.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verifier()
            .verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier().supported_verify_schemes()
    }
}
