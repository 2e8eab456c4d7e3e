//! What to connect to, and with which proof of who is calling.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use strata_identity::{Credentials, Expect, Fingerprint, LiveIdentity};

use crate::Address;

/// A place and a proof. Shows itself without its secrets.
#[derive(Clone)]
pub enum Target {
    /// A socket of this machine: the kernel is the proof.
    Unix(PathBuf),
    /// A TLS port, with a certificate.
    Tls {
        /// Where; an [`Address::Https`] in practice.
        address: Address,
        /// The certificate, its key, and the CA that must have signed the
        /// other side's.
        credentials: Credentials,
    },
    /// A server's TLS port, with a certificate that is renewed meanwhile: each
    /// connection shows the one in use when it is made.
    Live {
        /// Where; an [`Address::Https`] in practice.
        address: Address,
        /// The CA that must have signed the server's certificate.
        ca_pem: String,
        /// The certificate in use.
        identity: Arc<LiveIdentity>,
    },
    /// A TLS port, with an API token.
    Token {
        /// Where; an [`Address::Https`] in practice.
        address: Address,
        /// The CA that must have signed the server's certificate.
        ca_pem: String,
        /// What goes behind `Authorization: Bearer`.
        token: String,
        /// Who may see the token: a node must not collect those that were
        /// meant for the server.
        expect: Expect,
    },
    /// A TLS port of which only the CA's fingerprint is known, from a join
    /// token. The token itself goes into the request.
    Join {
        /// Where; an [`Address::Https`] in practice.
        address: Address,
        /// Of the CA that must have signed the server's certificate.
        fingerprint: Fingerprint,
    },
}

impl Target {
    /// Where it is.
    pub fn address(&self) -> Address {
        match self {
            Self::Unix(path) => Address::Unix(path.clone()),
            Self::Tls { address, .. }
            | Self::Live { address, .. }
            | Self::Token { address, .. }
            | Self::Join { address, .. } => address.clone(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proof = match self {
            Self::Unix(_) => "socket",
            Self::Tls { .. } | Self::Live { .. } => "certificate",
            Self::Token { .. } => "token",
            Self::Join { .. } => "join token",
        };
        write!(f, "{self} with a {proof}")
    }
}
