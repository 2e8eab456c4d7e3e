//! Why an embedded store cannot be opened.

use std::io;
use std::path::PathBuf;

/// Why it cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A directory or file cannot be made or opened.
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        /// The message of the system.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("the store in {} is in use", dir.display())]
    InUse {
        /// Where it is.
        dir: PathBuf,
    },
    /// It was written by a newer release.
    #[error(
        "the store in {} has format {found}, this release knows up to {known}: \
         use the release that wrote it, or a newer one",
        dir.display()
    )]
    Newer {
        /// Where it is.
        dir: PathBuf,
        found: u64,
        /// What is known here.
        known: u64,
    },
    /// The file does not hold what it should.
    #[error("the store in {} is damaged: {what}", dir.display())]
    Damaged {
        /// Where it is.
        dir: PathBuf,
        what: String,
    },
    /// Writes that were acknowledged are not in the file.
    #[error(
        "the store in {} is damaged: it is at revision {found}, and revision {noted} was \
         acknowledged",
        dir.display()
    )]
    RolledBack {
        /// Where it is.
        dir: PathBuf,
        /// The revision of the file.
        found: u64,
        /// The last one that was acknowledged.
        noted: u64,
    },
    /// The engine cannot read or write the file.
    #[error("{}: {source}", path.display())]
    Engine {
        path: PathBuf,
        /// The message of the engine.
        source: Box<redb::Error>,
    },
}
