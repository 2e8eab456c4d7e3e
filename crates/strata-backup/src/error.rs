//! What can go wrong with backups, by what a person can do about it.

use std::io;
use std::path::PathBuf;

use rustic_core::RusticError;
use strata_types::{Error, ErrorKind};

/// A result of this crate.
pub type Result<T, E = BackupError> = std::result::Result<T, E>;

/// Why a backup, a restore or a look into the repository failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    #[error("there is no repository at {location}")]
    NoRepository {
        /// Where it was looked for.
        location: String,
    },
    /// Something else is there.
    #[error("{location} is not empty and holds no repository")]
    Occupied {
        /// Where a repository was to be made.
        location: String,
    },
    /// The repository's keys do not open with the password.
    #[error("the password does not open the repository at {location}")]
    WrongPassword { location: String },
    /// Another is at work in the repository.
    #[error("the repository is locked by {by}")]
    Locked {
        /// The holder, according to its lock.
        by: String,
    },
    /// No space is left where the repository or the restored files are.
    #[error("no space is left for {path}")]
    DiskFull {
        /// What could not be written.
        path: PathBuf,
    },
    /// The store does not answer.
    #[error("{location} cannot be reached: {detail}")]
    Unreachable {
        location: String,
        /// The message of the network.
        detail: String,
    },
    /// The store knows us and refuses, or does not know us.
    #[error("{location} refuses: {detail}")]
    Denied { location: String, detail: String },
    /// A file of the repository is gone.
    #[error("{name} is not in the repository")]
    Missing { name: String },
    /// The repository's storage failed.
    #[error("{doing} {name}")]
    Storage {
        doing: &'static str,
        /// On which file of the repository.
        name: String,
        #[source]
        source: io::Error,
    },
    /// A file that was to be saved could not be read.
    #[error("reading {path}")]
    Source {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file had another size at its end than at its beginning.
    #[error("{path} changed while it was read")]
    Changed { path: PathBuf },
    /// The place in the backup that a source was to have is not one.
    #[error("{at:?} cannot be a place in a backup: {why}")]
    BadPlace {
        at: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No backup has this id.
    #[error("there is no backup {id}")]
    NoBackup { id: String },
    /// More than one backup begins with this id.
    #[error("more than one backup begins with {id}")]
    Ambiguous { id: String },
    /// The backup has no such file or directory.
    #[error("backup {id} has no {path}")]
    NoPath { id: String, path: String },
    /// What is to be restored would overwrite something.
    #[error("{path} is there already")]
    Exists {
        /// What is in the way.
        path: PathBuf,
    },
    /// A restored file could not be written.
    #[error("restoring {path}")]
    Restore {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The backup holds a name that no file can have. Such names are not
    /// written by accident.
    #[error("the backup is hostile: it holds a file named {name:?} in {dir}")]
    Hostile {
        /// The directory in the backup.
        dir: PathBuf,
        name: String,
    },
    /// A part of the repository is not what was written.
    #[error("the repository is damaged: {what}")]
    Damaged {
        /// What, and where.
        what: String,
    },
    /// Snapshots are not what was written, so it is not known what is in the
    /// backups.
    #[error("backups cannot be read, because their snapshots are damaged: {ids}")]
    UnreadableSnapshots { ids: String },
    /// The caller requested to stop.
    #[error("cancelled")]
    Cancelled,
    /// The settings of the store cannot be used.
    #[error("the store's settings cannot be used: {detail}")]
    Settings { detail: String },
    /// The engine failed in a way that has no name of its own here.
    #[error("{doing}: {}", one_line(.cause))]
    Engine {
        doing: &'static str,
        cause: Box<RusticError>,
    },
    /// A task of our own panicked.
    #[error("{doing} ended in a bug")]
    Panicked { doing: &'static str },
}

fn one_line(cause: &RusticError) -> String {
    let text = cause.display_log();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl BackupError {
    /// A failure to write, distinguished by whether the disk is full.
    pub(crate) fn storage(doing: &'static str, name: impl Into<String>, source: io::Error) -> Self {
        let name = name.into();
        if is_full(&source) {
            return Self::DiskFull { path: name.into() };
        }
        if source.kind() == io::ErrorKind::NotFound {
            return Self::Missing { name };
        }
        Self::Storage {
            doing,
            name,
            source,
        }
    }

    /// A failure to restore a file, distinguished in the same way.
    pub(crate) fn restore(path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        if is_full(&source) {
            return Self::DiskFull { path };
        }
        if source.kind() == io::ErrorKind::AlreadyExists {
            return Self::Exists { path };
        }
        Self::Restore { path, source }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::NoRepository { .. } | Self::NoBackup { .. } | Self::NoPath { .. } => {
                ErrorKind::NotFound
            }
            Self::Occupied { .. } | Self::Exists { .. } => ErrorKind::AlreadyExists,
            Self::WrongPassword { .. } | Self::Denied { .. } => ErrorKind::PermissionDenied,
            Self::Locked { .. } | Self::Unreachable { .. } => ErrorKind::Unavailable,
            Self::DiskFull { .. } => ErrorKind::Exhausted,
            Self::BadPlace { .. } | Self::Ambiguous { .. } | Self::Settings { .. } => {
                ErrorKind::Invalid
            }
            Self::Cancelled => ErrorKind::Aborted,
            Self::Hostile { .. }
            | Self::Damaged { .. }
            | Self::UnreadableSnapshots { .. }
            | Self::Missing { .. } => ErrorKind::WrongState,
            Self::Storage { .. }
            | Self::Source { .. }
            | Self::Changed { .. }
            | Self::Restore { .. }
            | Self::Engine { .. }
            | Self::Panicked { .. } => ErrorKind::Internal,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoRepository { .. } => {
                "check the configured repository; the first backup creates it"
            }
            Self::Occupied { .. } => "give the repository an empty directory or prefix of its own",
            Self::WrongPassword { .. } => {
                "check the password file; without the password the backups cannot be read"
            }
            Self::Locked { .. } => {
                "wait until it is done; the lock of a dead client expires after half \
                 an hour, or with `restic unlock`"
            }
            Self::DiskFull { .. } => "make space there, or prune old backups",
            Self::Unreachable { .. } => "check the address, the name server and the network",
            Self::Denied { .. } => "check the access key and its rights on the bucket",
            Self::Damaged { .. } | Self::Missing { .. } => {
                "verify says what is damaged; make a new backup, and check the disk"
            }
            Self::UnreadableSnapshots { .. } => {
                "move them aside with `strata backup repair`, and look at the disk below"
            }
            Self::Ambiguous { .. } => "give more characters of the id",
            _ => return None,
        })
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl From<BackupError> for Error {
    fn from(error: BackupError) -> Self {
        let public = Self::new(error.kind(), strata_types::chain(&error));
        match error.hint() {
            Some(hint) => public.with_hint(hint),
            None => public,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_distinguished_from_other_failures() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = Error::from(BackupError::storage("writing", "data/ab/abcd", full));
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        assert!(error.hint().is_some());
        let other = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Error::from(BackupError::storage("writing", "data/ab/abcd", other));
        assert_eq!(error.message(), "writing data/ab/abcd: permission denied");
    }
}
