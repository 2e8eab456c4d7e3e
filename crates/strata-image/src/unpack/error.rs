//! Why a layer was not unpacked. Each names the entry, and what is wrong.

use std::io;
use std::path::{Path, PathBuf};

use crate::Digest;
use crate::store::{ReserveReached, ShareReached};
use crate::tar::TarError;

/// Why a layer was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The tar is malformed.
    #[error("the layer is malformed: {0}")]
    Tar(#[source] TarError),
    /// The packing is broken or cannot be read.
    #[error("the layer cannot be decompressed: {0}")]
    Packing(#[source] io::Error),
    /// A packing that we do not know.
    #[error("the layer is packed with {0}, which is not supported: use gzip or zstd")]
    UnknownPacking(&'static str),
    /// `/etc/passwd`.
    #[error("the layer has the absolute path {0:?}")]
    Absolute(String),
    /// `../../etc/passwd`.
    #[error("the layer has the path {0:?}, which leads out of it")]
    Outside(String),
    /// A name that no file can have.
    #[error("the layer has the path {0:?}, which is not a valid name")]
    Name(String),
    #[error("the layer has a path of {length} bytes, more than {limit}")]
    PathTooLong { length: usize, limit: usize },
    /// An entry beneath a symlink.
    #[error("the layer writes {0:?} through a symlink")]
    ThroughSymlink(String),
    /// An entry beneath a file.
    #[error("the layer writes {0:?} beneath what is not a directory")]
    NotADirectory(String),
    /// A hard link to what is not in this layer, or is a directory.
    #[error("the layer links {path:?} to {target:?}, which is not a file of this layer")]
    LinkTarget {
        path: String,
        /// What it links to.
        target: String,
    },
    /// A symlink with no target.
    #[error("the layer has the symlink {0:?} to nowhere")]
    EmptyLink(String),
    /// `.wh.` with nothing, or with dots, behind it.
    #[error("the layer has the malformed whiteout {0:?}")]
    Whiteout(String),
    /// An attribute that would steer the overlay itself.
    #[error("the layer sets the attribute {name:?} on {path:?}, which is the overlay's own")]
    OverlayAttribute { path: String, name: String },
    /// More bytes than allowed.
    #[error("the layer unpacks to more than {0} bytes")]
    TooLarge(u64),
    /// More bytes than allowed, with the other layers of the image.
    #[error("the image unpacks to more than {0} bytes")]
    ImageTooLarge(u64),
    /// The rest of the disk is not for images.
    #[error(transparent)]
    Reserve(#[from] ReserveReached),
    /// The rest of the disk is not for images of this project.
    #[error(transparent)]
    Share(#[from] ShareReached),
    /// More entries than allowed.
    #[error("the layer has more than {0} entries")]
    TooManyEntries(u64),
    /// Packed tighter than honest content is.
    #[error("the layer unpacks to more than {0} times its size: a decompression bomb")]
    Bomb(u64),
    /// It is not the layer that the config names.
    #[error("the layer unpacks to {found}, but the config states {expected}")]
    DiffId { expected: Digest, found: Digest },
    /// The caller broke it off.
    #[error("unpacking was broken off")]
    Cancelled,
    /// The file system refused.
    #[error("cannot {action} {path:?}: {source}")]
    Io {
        action: &'static str,
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// The directory itself cannot be made or opened.
    #[error("cannot make the directory {}: {source}", path.display())]
    Root {
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl UnpackError {
    pub(super) fn root(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Root {
            path: path.to_owned(),
            source: source.into(),
        }
    }

    pub(super) fn io(action: &'static str, path: &[u8], source: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            path: shown(path),
            source: source.into(),
        }
    }

    /// What the feed put into a failed read comes out as what it was.
    pub(super) fn from_read(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(inner) => inner,
            Err(error) => Self::Packing(error),
        }
    }

    /// The disk is full or the quota is used up.
    pub(crate) fn is_full_disk(&self) -> bool {
        match self {
            Self::Io { source, .. } | Self::Root { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ),
            Self::Reserve(_) => true,
            _ => false,
        }
    }
}

/// A path of a layer, fit to be printed.
pub(super) fn shown(path: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&path[..path.len().min(200)]).into_owned();
    if path.len() > 200 {
        text.push('…');
    }
    text
}
