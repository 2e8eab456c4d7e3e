//! Why a source did not return what was requested, and whether to retry.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::manifest::ManifestError;
use crate::{Digest, Platform};

/// Why a source did not return what was requested.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No such image, or no such blob.
    #[error("{0} is not there")]
    NotFound(String),
    /// The registry wants credentials, or others.
    #[error("{host} refuses access: {detail}")]
    Denied { host: String, detail: String },
    /// The registry answered with an error.
    #[error("{host} answered {status}: {detail}")]
    Status {
        host: String,
        status: u16,
        detail: String,
        /// The delay that it requests.
        retry_after: Option<Duration>,
    },
    /// The connection failed or broke.
    #[error("the connection to {host} failed: {detail}")]
    Connection { host: String, detail: String },
    /// Nothing came for too long.
    #[error("{host} sent nothing for {} s", after.as_secs())]
    Stalled {
        host: String,
        /// How long we waited.
        after: Duration,
    },
    /// So little came that it would never end.
    #[error("{host} sent less than {rate} bytes per second for {} s", window.as_secs())]
    TooSlow {
        host: String,
        /// What it has to send.
        rate: u64,
        window: Duration,
    },
    /// The stream ended before the blob did.
    #[error("the stream of {digest} ended after {got} of {size} bytes")]
    Truncated {
        digest: Digest,
        got: u64,
        /// What should have come.
        size: u64,
    },
    /// An answer that breaks the protocol.
    #[error("{host} answered what makes no sense: {detail}")]
    Protocol {
        host: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Unencrypted where that is not allowed.
    #[error("{0} is not on the list of registries that may be used without TLS")]
    PlainHttp(String),
    /// A document beyond all reason.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge { what: String, limit: u64 },
    /// Content that does not match its digest.
    #[error("the content of {expected} has the digest {found}: the source is damaged or lies")]
    Digest { expected: Digest, found: Digest },
    /// No image for this machine.
    #[error("there is no image for {wanted}, only for {}", list(offered))]
    NoPlatform {
        wanted: Platform,
        offered: Vec<String>,
    },
    /// Indexes without end.
    #[error("the index names indexes that name indexes")]
    TooDeep,
    /// A document that is no image.
    #[error("the manifest {0}")]
    Manifest(#[source] ManifestError),
    /// Several images where one was meant.
    #[error("{} holds {}: say which", path.display(), list(names))]
    Ambiguous {
        /// The layout or archive.
        path: PathBuf,
        names: Vec<String>,
    },
    /// Not a layout or archive.
    #[error("{} is not {kind}: {detail}", path.display())]
    NotA {
        /// The file or directory.
        path: PathBuf,
        /// What it should be.
        kind: &'static str,
        /// Why it is not.
        detail: String,
    },
    /// A local file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A certificate or setting of ours is wrong.
    #[error("the registry settings are wrong: {0}")]
    Settings(String),
}

/// Whether a retry may help, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAfter {
    /// It will be the same.
    Never,
    /// When we think fit.
    Soon,
    /// Not before this has passed.
    After(Duration),
}

impl SourceError {
    pub(crate) fn again(&self) -> RetryAfter {
        match self {
            Self::Status {
                status,
                retry_after,
                ..
            } => match (status, retry_after) {
                (429 | 503, Some(after)) => RetryAfter::After(*after),
                (408 | 425 | 429 | 500..=599, _) => RetryAfter::Soon,
                _ => RetryAfter::Never,
            },
            Self::Connection { .. } | Self::Stalled { .. } | Self::Truncated { .. } => {
                RetryAfter::Soon
            }
            _ => RetryAfter::Never,
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "nothing".into()
    } else {
        names.join(", ")
    }
}
