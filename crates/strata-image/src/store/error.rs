//! Why the store did not do what it was asked, and what that is to a caller.

use std::io;
use std::path::{Path, PathBuf};

use strata_types::{Error, ErrorKind};

use crate::manifest::ManifestError;
use crate::{Digest, Reference, SourceError, UnpackError};

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("the image store {} is in use by another process", .0.display())]
    Locked(PathBuf),
    /// Not pulled yet.
    #[error("image {0} is not here")]
    UnknownImage(Reference),
    /// Something is said to run from it, but it is not here.
    #[error("image {0} is said to be in use, but is not here")]
    UnknownInUse(Digest),
    /// Something runs from it.
    #[error("image {0} is in use")]
    InUse(Reference),
    /// The source failed, for good or too often.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A blob that is not what its name says.
    #[error("blob {expected} has the digest {found}: the source is damaged or lies")]
    Digest {
        /// What it should be.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// A blob that is longer than its manifest says.
    #[error("blob {digest} is longer than the {size} bytes that the manifest says")]
    TooLong {
        /// The blob.
        digest: Digest,
        /// What the manifest says.
        size: u64,
    },
    /// Manifest or config cannot be used.
    #[error("image {digest} {source}")]
    Manifest {
        /// The manifest.
        digest: Digest,
        /// Why not.
        source: ManifestError,
    },
    /// A layer that was refused.
    #[error("layer {digest}: {source}")]
    Unpack {
        /// The blob.
        digest: Digest,
        /// Why.
        source: UnpackError,
    },
    /// The disk under the store.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A task of ours died.
    #[error("a task of the image store died: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl StoreError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    fn is_full_disk(&self) -> bool {
        match self {
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ),
            Self::Unpack { source, .. } => source.is_full_disk(),
            _ => false,
        }
    }

    fn kind(&self) -> ErrorKind {
        use crate::source::Again;
        match self {
            _ if self.is_full_disk() => ErrorKind::Exhausted,
            Self::UnknownImage(_) | Self::UnknownInUse(_) => ErrorKind::NotFound,
            Self::Locked(_) | Self::InUse(_) => ErrorKind::WrongState,
            Self::Source(error) => match error {
                _ if error.again() != Again::Never => ErrorKind::Unavailable,
                SourceError::NotFound(_) => ErrorKind::NotFound,
                SourceError::Denied { .. } => ErrorKind::PermissionDenied,
                SourceError::Io { .. } => ErrorKind::Internal,
                _ => ErrorKind::Invalid,
            },
            Self::Digest { .. } | Self::TooLong { .. } | Self::Manifest { .. } => {
                ErrorKind::Invalid
            }
            Self::Unpack { source, .. } => match source {
                UnpackError::Io { .. } | UnpackError::Root { .. } => ErrorKind::Internal,
                UnpackError::Cancelled => ErrorKind::Aborted,
                _ => ErrorKind::Invalid,
            },
            Self::Io { .. } | Self::Task(_) => ErrorKind::Internal,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let public = Self::new(error.kind(), error.to_string());
        match &error {
            _ if error.is_full_disk() => {
                public.with_hint("free space with `strata image prune`, or give the store more")
            }
            StoreError::InUse(_) => public.with_hint("destroy what runs from it first"),
            StoreError::Source(SourceError::Denied { .. }) => {
                public.with_hint("give credentials for this registry in the configuration")
            }
            StoreError::Source(SourceError::PlainHttp(_)) => {
                public.with_hint("use TLS, or list the registry under plain_http")
            }
            _ => public,
        }
    }
}
