//! Why the store did not do what was requested, and what that is to a caller.

use std::io;
use std::path::{Path, PathBuf};

use strata_types::{Error, ErrorKind};

use super::budget::ReserveReached;
use super::share::ShareReached;
use crate::manifest::ManifestError;
use crate::{Digest, Reference, SourceError, UnpackError};

/// Why the store did not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("the image store {} is in use by another process", .0.display())]
    Locked(PathBuf),
    /// Not pulled yet.
    #[error("image {0} is not here")]
    UnknownImage(Reference),
    /// Something is reported to run from it, but it is not here.
    #[error("image {0} is marked as in use, but is not in the store")]
    UnknownInUse(Digest),
    /// Something runs from it.
    #[error("image {0} is in use")]
    InUse(Reference),
    /// The source failed, permanently or too often.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A blob that does not match its digest.
    #[error("blob {expected} has the digest {found}: the source is damaged or lies")]
    Digest {
        /// What it should be.
        expected: Digest,
        found: Digest,
    },
    /// A blob that is longer than in its manifest.
    #[error("blob {digest} is longer than the {size} bytes that the manifest states")]
    TooLong {
        digest: Digest,
        /// The size in the manifest.
        size: u64,
    },
    /// Manifest or config cannot be used.
    #[error("image {digest} {source}")]
    Manifest {
        digest: Digest,
        /// Why not.
        source: ManifestError,
    },
    /// A layer that was refused.
    #[error("layer {digest}: {source}")]
    Unpack { digest: Digest, source: UnpackError },
    /// The images of the project take their share of the disk.
    #[error(transparent)]
    Share(#[from] ShareReached),
    /// The disk under the store.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
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

    /// Whether the image takes more of the disk than it may. What was pulled of
    /// it is then better removed than kept for the next attempt.
    pub fn is_out_of_space(&self) -> bool {
        let too_large = matches!(
            self,
            Self::Unpack {
                source: UnpackError::ImageTooLarge(_)
                    | UnpackError::TooLarge(_)
                    | UnpackError::TooManyEntries(_)
                    | UnpackError::Bomb(_),
                ..
            }
        );
        too_large || self.is_full_disk() || self.is_share()
    }

    /// Whether the rest of the disk is not for images.
    pub fn is_reserve(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                let inner = source.get_ref();
                inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<ReserveReached>)
            }
            Self::Unpack { source, .. } => matches!(source, UnpackError::Reserve(_)),
            _ => false,
        }
    }

    /// Whether the rest of the disk is not for images of this project.
    pub fn is_share(&self) -> bool {
        let unpack = matches!(
            self,
            Self::Unpack {
                source: UnpackError::Share(_),
                ..
            }
        );
        unpack || matches!(self, Self::Share(_))
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
        use crate::source::RetryAfter;
        match self {
            _ if self.is_full_disk() || self.is_share() => ErrorKind::Exhausted,
            Self::UnknownImage(_) | Self::UnknownInUse(_) => ErrorKind::NotFound,
            Self::Locked(_) | Self::InUse(_) => ErrorKind::WrongState,
            Self::Source(error) => match error {
                _ if error.again() != RetryAfter::Never => ErrorKind::Unavailable,
                // Later perhaps, but not by this pull, which has a place that
                // others wait for.
                SourceError::TooSlow { .. } => ErrorKind::Unavailable,
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
            Self::Share(_) => ErrorKind::Exhausted,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let public = Self::new(error.kind(), error.to_string());
        match &error {
            _ if error.is_share() => public
                .with_hint("delete instances of this project on this node, or use smaller images"),
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
