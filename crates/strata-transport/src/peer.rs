//! The other end of a connection, examined once: what it presented, and which
//! caller that makes it.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use strata_identity::{Caller, CertificateId, caller_from_certificate};

/// The other end of a connection. In the extensions of every request, as
/// `Arc<Peer>`.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address, over TCP.
    pub remote: Option<SocketAddr>,
    /// The address of this host that it reached, over TCP.
    pub local: Option<SocketAddr>,
    /// The certificate it holds the key of, over TLS.
    pub certificate: Option<CertificateDer<'static>>,
    /// The caller that the connection itself proves; why not, where it tried.
    pub caller: Result<Option<Caller>, String>,
    /// What the certificate of that caller is known by.
    pub certificate_id: Option<Arc<CertificateId>>,
}

impl Peer {
    /// Of a TLS connection whose handshake is done: the chain was verified.
    pub(crate) fn over_tls(
        remote: SocketAddr,
        local: Option<SocketAddr>,
        certificate: Option<CertificateDer<'static>>,
    ) -> Self {
        let caller = match &certificate {
            None => Ok(None),
            Some(der) => match caller_from_certificate(der) {
                Ok(caller) => Ok(Some(caller)),
                Err(error) => Err(format!("the certificate names no caller: {error}")),
            },
        };
        let certificate_id = match (&certificate, &caller) {
            (Some(der), Ok(Some(_))) => CertificateId::of(der).ok().map(Arc::new),
            _ => None,
        };
        Self {
            remote: Some(remote),
            local,
            certificate,
            caller,
            certificate_id,
        }
    }

    /// Of a Unix socket, by the user that the kernel vouches for.
    pub(crate) fn over_unix(caller: Result<Caller, String>) -> Self {
        Self {
            remote: None,
            local: None,
            certificate: None,
            caller: caller.map(Some),
            certificate_id: None,
        }
    }

    /// Of a tunnel, by the principal that the server at its other end names.
    pub(crate) fn over_tunnel(caller: Result<Caller, String>) -> Self {
        Self {
            remote: None,
            local: None,
            certificate: None,
            caller: caller.map(Some),
            certificate_id: None,
        }
    }

    /// Its caller is not authenticated yet.
    pub(crate) fn is_unauthenticated_peer(&self) -> bool {
        !matches!(self.caller, Ok(Some(_)))
    }
}
