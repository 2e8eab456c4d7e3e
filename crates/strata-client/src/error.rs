//! What can go wrong between a client and what it calls, by what a person
//! does about it: reach it, find it, prove oneself, or read its answer.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use strata_types::ErrorKind;
use tonic::Status;

use crate::Address;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call did not come to an answer, or which answer it got.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        address: Address,
        /// Why it did not work, in one line.
        reason: String,
        /// Connection refused: the host is up and the port is closed.
        refused: bool,
    },
    /// It answered, and then went away.
    #[error("lost the connection to {address}: {reason}")]
    Lost {
        address: Address,
        /// Why, in one line.
        reason: String,
    },
    /// TLS ended because one side does not trust the other.
    #[error("TLS authentication with {address} failed: {reason}")]
    Untrusted {
        address: Address,
        /// What TLS says, in one line.
        reason: String,
    },
    /// Nothing says where to connect to.
    #[error("no {what} found")]
    Nowhere {
        what: &'static str,
        /// Every place that was looked at, and what was found there.
        tried: Vec<String>,
    },
    /// The address is known, the proof is not.
    #[error("no credentials for {address}")]
    NoProof {
        /// Where it would have been shown.
        address: Address,
    },
    /// A file that is needed cannot be read or written.
    #[error("cannot {verb} {}", path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file is there and makes no sense.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It answered with an error.
    #[error("{0}")]
    Answer(strata_types::Error),
}

impl Error {
    pub(crate) fn file(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { verb, path, source }
    }

    /// Tells an answer from a connection that broke while waiting for it.
    pub fn from_status(address: &Address, status: &Status) -> Self {
        // A status that came over the wire has no source; one that the
        // transport made up on this side has.
        match status.source() {
            None if cut_off(status) => Self::Lost {
                address: address.clone(),
                reason: status.message().to_owned(),
            },
            None => Self::Answer(strata_api::error_from_status(status)),
            Some(source) => Self::broken(address, source),
        }
    }

    pub(crate) fn broken(address: &Address, source: &(dyn StdError + 'static)) -> Self {
        let (address, reason) = (address.clone(), innermost(source));
        if is_about_trust(&reason) {
            Self::Untrusted { address, reason }
        } else {
            Self::Lost { address, reason }
        }
    }

    pub(crate) fn connect(address: &Address, source: &(dyn StdError + 'static)) -> Self {
        let (address, reason) = (address.clone(), innermost(source));
        if is_about_trust(&reason) {
            Self::Untrusted { address, reason }
        } else {
            let refused = is_refused(source);
            Self::Connect {
                address,
                reason,
                refused,
            }
        }
    }

    /// What the caller can do, where the other side answered.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Answer(answer) => Some(answer.kind()),
            _ => None,
        }
    }

    /// What a person can do next.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Answer(answer) => return answer.hint().map(str::to_owned),
            Self::Lost { .. } => "check whether the daemon still runs, then retry".into(),
            Self::Untrusted { .. } => {
                "use the ca.crt and the certificate that this server issued; \
                 --data-dir DIR takes those in DIR/client"
                    .into()
            }
            Self::Nowhere { what, .. } => {
                let flag = if *what == "node" {
                    "--node"
                } else {
                    "--server"
                };
                format!("start one with `strata up`, or specify it with --data-dir DIR or {flag}")
            }
            Self::NoProof { .. } => {
                "add --credentials DIRECTORY or --data-dir DIR, set STRATA_TOKEN with --ca FILE, \
                 or run `strata login`"
                    .into()
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "only the user that ran the daemon, or root, may read it".into()
            }
            Self::Connect {
                address: Address::Unix(_),
                reason,
                ..
            } => unix_hint(reason).into(),
            Self::Connect { .. } => {
                "check whether the daemon runs there and the port is reachable".into()
            }
            Self::File { .. } | Self::Damaged { .. } => return None,
        })
    }
}

fn unix_hint(reason: &str) -> &'static str {
    if reason.contains("ermission denied") {
        "run as root, or use the TLS port: --data-dir DIR or --node https://HOST:PORT"
    } else {
        "start the daemon with `strata up`, or specify it with --data-dir DIR or --node"
    }
}

/// The transport's own words for a stream that ended without its trailers.
fn cut_off(status: &Status) -> bool {
    use tonic::Code::{Internal, Unavailable, Unknown};
    matches!(status.code(), Internal | Unavailable | Unknown)
        && [
            "h2 protocol error",
            "protocol error: ",
            "missing grpc-status",
        ]
        .iter()
        .any(|words| status.message().contains(words))
}

fn is_about_trust(reason: &str) -> bool {
    reason.contains("invalid peer certificate") || reason.contains("received fatal alert")
}

/// Whether the other machine itself said that nobody listens.
fn is_refused(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::ConnectionRefused
        {
            return true;
        }
        next = cause.source();
    }
    false
}

/// The last cause of a chain: the outer ones only say "transport error".
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        "unix:/x".parse().unwrap()
    }

    #[test]
    fn an_answer_keeps_its_kind() {
        let sent = strata_types::Error::not_found("no cell web").with_hint("list them");
        let status = strata_api::status_from_error(&sent);
        let error = Error::from_status(&address(), &status);
        assert_eq!(error.kind(), Some(ErrorKind::NotFound));
        assert_eq!(error.hint().unwrap(), "list them");
    }

    #[test]
    fn a_broken_transport_is_no_answer() {
        let status = Status::from_error(Box::new(io::Error::other("reset by peer")));
        let error = Error::from_status(&address(), &status);
        assert!(matches!(error, Error::Lost { reason, .. } if reason == "reset by peer"));
    }

    #[test]
    fn tls_trust_errors_are_distinguished() {
        let cause = io::Error::other("invalid peer certificate: UnknownIssuer");
        let error = Error::connect(&address(), &cause);
        assert!(matches!(error, Error::Untrusted { .. }));
    }
}
