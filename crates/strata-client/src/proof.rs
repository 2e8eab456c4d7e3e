//! Finds the proof for an address: a certificate in a directory, or a token.
//! What was said outright wins; then the data directory, the saved login for
//! that address, and the default directory.

use std::path::{Path, PathBuf};

use strata_identity::{Credentials, CredentialsError, Expect, FileError};

use crate::context::{Context, Contexts};
use crate::error::{Error, Result};
use crate::{Address, Discovery, Target};

/// An address, and what is expected to listen there.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    pub(crate) expect: Expect,
}

impl Peer {
    fn with_credentials(self, directory: &Path) -> Result<Target> {
        Ok(Target::Tls {
            address: self.address,
            credentials: read_credentials(directory)?,
        })
    }
}

impl Discovery {
    /// The proof for an address that was said outright.
    pub(crate) fn prove(&self, peer: Peer) -> Result<Target> {
        if let Address::Unix(path) = peer.address {
            return Ok(Target::Unix(path));
        }
        if let Some(data_dir) = &self.data_dir {
            return self.prove_from(peer, &data_dir.join("client"));
        }
        if let Some(target) = self.said_proof(&peer)? {
            return Ok(target);
        }
        if let Some(file) = &self.places.logins {
            let contexts = Contexts::read(file)?;
            let same = |context: &&Context| context.server.parse() == Ok(peer.address.clone());
            if let Some(context) = contexts.contexts.values().find(same) {
                return from_context(peer, context, file);
            }
        }
        let address = peer.address.clone();
        peer.with_credentials(&self.places.data_dir.join("client"))
            .map_err(|_| Error::NoProof { address })
    }

    /// The proof that was said outright, else the one in `directory`.
    pub(crate) fn prove_from(&self, peer: Peer, directory: &Path) -> Result<Target> {
        match self.said_proof(&peer)? {
            Some(target) => Ok(target),
            None => peer.with_credentials(directory),
        }
    }

    /// The proof that was said outright.
    pub(crate) fn said_proof(&self, peer: &Peer) -> Result<Option<Target>> {
        if let Some(directory) = &self.credentials {
            return peer.clone().with_credentials(directory).map(Some);
        }
        let Some(token) = &self.token else {
            return Ok(None);
        };
        let Some(ca) = self.ca_file() else {
            return Err(Error::NoProof {
                address: peer.address.clone(),
            });
        };
        Ok(Some(Target::Token {
            address: peer.address.clone(),
            ca_pem: std::fs::read_to_string(&ca).map_err(Error::file("read", &ca))?,
            token: token.trim().to_owned(),
            expect: peer.expect,
        }))
    }

    /// The CA for a token: the one named, else the one in the named directory.
    fn ca_file(&self) -> Option<PathBuf> {
        let from_dir = || Some(self.data_dir.as_ref()?.join("client/ca.crt"));
        self.ca.clone().or_else(from_dir)
    }
}

/// The proof that a saved login holds.
pub(crate) fn from_context(peer: Peer, context: &Context, file: &Path) -> Result<Target> {
    if let Some(directory) = &context.credentials {
        return peer.with_credentials(directory);
    }
    match (&context.token, &context.ca_pem) {
        (Some(token), Some(ca_pem)) => Ok(Target::Token {
            address: peer.address,
            ca_pem: ca_pem.clone(),
            token: token.clone(),
            expect: peer.expect,
        }),
        _ => Err(Error::Damaged {
            path: file.to_owned(),
            reason: format!(
                "the context for {} has neither credentials nor a token with its CA",
                peer.address
            ),
        }),
    }
}

fn read_credentials(directory: &Path) -> Result<Credentials> {
    Credentials::read(directory).map_err(|why| match why {
        CredentialsError::File(
            FileError::Read { path, source } | FileError::Write { path, source },
        ) => Error::File {
            verb: "read",
            path,
            source,
        },
        other => Error::Damaged {
            path: directory.to_owned(),
            reason: other.to_string(),
        },
    })
}
