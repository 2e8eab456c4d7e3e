//! Where the repository's files lie. A store handles files in places and not
//! their content.
//!
//! ```text
//! config                what the repository is
//! keys/<id>             the master key, locked with a password
//! snapshots/<id>        one per backup
//! index/<id>            which blob is in which pack
//! data/<ab>/<abcd…>     packs of blobs
//! locks/<id>            who is at work
//! damaged/<kind>/<id>   what a repair moved out of the way
//! ```
//!
//! Names are SHA-256 of what is in the file, so a file never changes: it is
//! written whole or not at all, and writing it twice does no harm.

mod directory;
mod http;
mod s3;

use std::sync::Arc;

use bytes::Bytes;

use crate::config::Location;
use crate::error::Result;
use crate::rate_limiter::RateLimiter;

/// A kind of files of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Config,
    Keys,
    Snapshots,
    Index,
    Data,
    Locks,
    /// Snapshots that a repair moved out of the way.
    DamagedSnapshots,
    /// Indexes likewise.
    DamagedIndex,
}

impl FileKind {
    pub(crate) const DIRS: [Self; 5] = [
        Self::Keys,
        Self::Snapshots,
        Self::Index,
        Self::Data,
        Self::Locks,
    ];

    pub(crate) fn dir(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Keys => "keys",
            Self::Snapshots => "snapshots",
            Self::Index => "index",
            Self::Data => "data",
            Self::Locks => "locks",
            Self::DamagedSnapshots => "damaged/snapshots",
            Self::DamagedIndex => "damaged/index",
        }
    }

    /// Where damaged files of this kind are moved to.
    fn aside(self) -> Self {
        match self {
            Self::Index => Self::DamagedIndex,
            _ => Self::DamagedSnapshots,
        }
    }

    /// The path of a file from the repository's root.
    pub(crate) fn path(self, name: &str) -> String {
        let dir = self.dir();
        match self {
            Self::Config => dir.to_owned(),
            Self::Data => format!("{dir}/{}/{name}", name.get(..2).unwrap_or("")),
            _ => format!("{dir}/{name}"),
        }
    }
}

/// A file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredFile {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Another number once it was written to; 0 where that is not known.
    pub(crate) stamp: u64,
}

/// What holds the files. All calls block, and may come from many threads.
pub(crate) trait Store: Send + Sync + 'static {
    /// What people call it.
    fn location(&self) -> String;

    /// How many reads at once it is good for.
    fn readers(&self) -> usize;

    /// Whether each read costs a journey, so that few large ones are better.
    fn is_far(&self) -> bool;

    /// Makes what must be there before the first file is.
    fn prepare(&self) -> Result<()>;

    /// The names that lie at the root, at most `enough` of them.
    fn roots(&self, enough: usize) -> Result<Vec<String>>;

    /// The whole files of a place, in no order. Names that are not those of
    /// repository files are left out.
    fn list(&self, place: FileKind) -> Result<Vec<StoredFile>>;

    fn read(&self, place: FileKind, name: &str) -> Result<Bytes>;

    /// A piece of a file; an error if the file ends before it does.
    fn read_range(&self, place: FileKind, name: &str, offset: u64, length: u64) -> Result<Bytes>;

    /// The same, but a file that ends earlier gives what it has.
    fn read_up_to(&self, place: FileKind, name: &str, offset: u64, length: u64) -> Result<Bytes> {
        self.read_range(place, name, offset, length)
    }

    /// Writes a file whole or not at all. When it returns the file survives
    /// a loss of power, and so do all that were written before it.
    fn write(
        &self,
        place: FileKind,
        name: &str,
        pieces: &[Bytes],
        pace: &RateLimiter,
    ) -> Result<()>;

    /// Removes a file; fine when it is gone already.
    fn remove(&self, place: FileKind, name: &str) -> Result<()>;

    /// Moves a snapshot or an index to where no client looks for any.
    fn set_aside(&self, place: FileKind, name: &str) -> Result<()>;

    /// Removes what writers that died left half done. For a process that has
    /// the repository exclusively: it cannot distinguish them from live ones.
    fn sweep(&self) -> Result<()>;
}

/// Opens the store of a location. Nothing is looked at yet.
pub(crate) fn open(location: &Location) -> Result<Arc<dyn Store>> {
    Ok(match location {
        Location::Directory(path) => Arc::new(directory::DirectoryStore::new(path.clone())),
        Location::S3(bucket) => Arc::new(s3::S3::new(bucket, location.to_string())?),
    })
}

/// Whether this is the name of a repository file: 64 digits of base 16.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() == 64
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_lie_in_directories_by_their_first_digits() {
        assert_eq!(FileKind::Data.path("abcd"), "data/ab/abcd");
        assert_eq!(FileKind::Index.path("abcd"), "index/abcd");
        assert_eq!(FileKind::Config.path("abcd"), "config");
    }

    #[test]
    fn half_written_files_have_no_repository_name() {
        assert!(is_name(&"0a".repeat(32)));
        assert!(!is_name(&"0A".repeat(32)));
        assert!(!is_name(&format!("{}-tmp-1", "0a".repeat(32))));
    }
}
