//! A certificate in use that can be exchanged while connections live: new
//! handshakes take the new one, established connections keep what they have.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{CertificateId, Credentials, CredentialsError, Validity};

/// Credentials cannot be put into use.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// They are not what they should be.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The text is not PEM.
    #[error("the {0} is not PEM")]
    NotPem(&'static str),
    /// TLS does not take them.
    #[error("TLS does not take these credentials")]
    Tls(#[from] rustls::Error),
}

/// The certificate that this process shows, as a server or as a client.
pub struct LiveIdentity {
    current: ArcSwap<Current>,
}

struct Current {
    key: Arc<CertifiedKey>,
    id: Option<CertificateId>,
    validity: Validity,
}

impl LiveIdentity {
    /// Puts credentials into use.
    pub fn new(credentials: &Credentials) -> Result<Self, LiveError> {
        Ok(Self {
            current: ArcSwap::from_pointee(load(credentials)?),
        })
    }

    /// Exchanges the credentials; on failure the old ones stay.
    pub fn swap(&self, credentials: &Credentials) -> Result<(), LiveError> {
        self.current.store(Arc::new(load(credentials)?));
        Ok(())
    }

    /// What the certificate in use is known by; none where it names no caller.
    pub fn certificate_id(&self) -> Option<CertificateId> {
        self.current.load().id.clone()
    }

    /// When the certificate in use begins and ends.
    pub fn validity(&self) -> Validity {
        self.current.load().validity
    }
}

/// The CA travels along in the chain: a joining node has nothing but the CA's
/// fingerprint, and must see the CA to recognise it.
fn load(credentials: &Credentials) -> Result<Current, LiveError> {
    let certificates = |pem: &str, what| {
        CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| LiveError::NotPem(what))
    };
    let mut chain = certificates(&credentials.certificate_pem, "certificate")?;
    for ca in certificates(&credentials.ca_pem, "CA certificate")? {
        if !chain.contains(&ca) {
            chain.push(ca);
        }
    }
    let key = PrivateKeyDer::from_pem_slice(credentials.key_pem.expose().as_bytes())
        .map_err(|_| LiveError::NotPem("private key"))?;
    let key = CertifiedKey::new(chain, any_supported_type(&key)?);
    key.keys_match()?;
    Ok(Current {
        key: Arc::new(key),
        id: credentials.certificate_id().ok(),
        validity: credentials.validity()?,
    })
}

impl ResolvesServerCert for LiveIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load().key.clone())
    }
}

impl ResolvesClientCert for LiveIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load().key.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Its key is not for printing.
impl fmt::Debug for LiveIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveIdentity")
            .field("validity", &self.validity())
            .finish_non_exhaustive()
    }
}
