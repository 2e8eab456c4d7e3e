//! What can be wrong with a disk.

use std::io;
use std::path::{Path, PathBuf};

use strata_types::{Error, ErrorKind};

use super::qcow2::HeaderError;

/// What can be wrong with a disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("cannot {action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        /// The message of the kernel.
        source: io::Error,
    },
    /// A directory, a device, a pipe.
    #[error("{path} is not a regular file")]
    NoFile { path: PathBuf },
    /// It has the header of qcow2, and is not valid.
    #[error("{path} begins like a qcow2 image, but {why}")]
    Header { path: PathBuf, why: HeaderError },
    /// It would have QEMU read another file.
    #[error("{path} names another file, {name:?}, as its backing; that is refused")]
    NamesBacking {
        path: PathBuf,
        /// The file it names.
        name: String,
    },
    /// It would have QEMU read another file.
    #[error("{path} keeps its data in another file; that is refused")]
    NamesDataFile { path: PathBuf },
    /// A copy-on-write disk of something else.
    #[error("{path} does not stand on {base}")]
    NotItsBase {
        path: PathBuf,
        /// What it should stand on.
        base: PathBuf,
    },
    /// Larger than any disk of ours.
    #[error("{path} is a disk of {size} bytes; 64 TiB is the most")]
    TooLarge { path: PathBuf, size: u64 },
    /// A size that no disk has.
    #[error("a disk cannot have {size} bytes: {why}")]
    Size {
        size: u64,
        /// Why not.
        why: &'static str,
    },
    /// A copy must hold all of its base.
    #[error("{size} bytes are fewer than the {base} that the base has")]
    SmallerThanBase {
        size: u64,
        /// That of the base.
        base: u64,
    },
    /// The path cannot be written into an image.
    #[error("{path} is too long a path, or not UTF-8")]
    BasePath { path: PathBuf },
}

/// Makes an error of the host into ours.
pub(super) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> DiskError {
    let path = path.to_path_buf();
    move |source| DiskError::Io {
        action,
        path: path.clone(),
        source,
    }
}

impl From<DiskError> for Error {
    fn from(error: DiskError) -> Self {
        let kind = match &error {
            DiskError::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Exhausted,
                _ => ErrorKind::Internal,
            },
            _ => ErrorKind::Invalid,
        };
        let message = match &error {
            DiskError::Io { source, .. } => format!("{error}: {source}"),
            _ => error.to_string(),
        };
        let shown = Self::new(kind, message);
        match error {
            DiskError::NamesBacking { .. } => {
                shown.with_hint("make it one file first: qemu-img convert -O qcow2 IMAGE WHOLE")
            }
            _ => shown,
        }
    }
}
