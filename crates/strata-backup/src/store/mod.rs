//! Where the repository's files lie. A store knows files in places and
//! nothing of what is in them.
//!
//! ```text
//! config                what the repository is
//! keys/<id>             the master key, locked with a password
//! snapshots/<id>        one per backup
//! index/<id>            which blob is in which pack
//! data/<ab>/<abcd…>     packs of blobs
//! locks/<id>            who is at work
//! ```
//!
//! Names are SHA-256 of what is in the file, so a file never changes: it is
//! written whole or not at all, and writing it twice does no harm.

mod folder;
mod http;
mod s3;

use std::sync::Arc;

use bytes::Bytes;

use crate::config::Location;
use crate::error::Result;
use crate::pace::Pace;

/// A kind of files of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Config,
    Keys,
    Snapshots,
    Index,
    Data,
    Locks,
}

impl Place {
    pub(crate) const FOLDERS: [Self; 5] = [
        Self::Keys,
        Self::Snapshots,
        Self::Index,
        Self::Data,
        Self::Locks,
    ];

    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Keys => "keys",
            Self::Snapshots => "snapshots",
            Self::Index => "index",
            Self::Data => "data",
            Self::Locks => "locks",
        }
    }

    /// The path of a file from the repository's root.
    pub(crate) fn path(self, name: &str) -> String {
        let folder = self.folder();
        match self {
            Self::Config => folder.to_owned(),
            Self::Data => format!("{folder}/{}/{name}", name.get(..2).unwrap_or("")),
            _ => format!("{folder}/{name}"),
        }
    }
}

/// A file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Another number once somebody has written to it; 0 where that is not
    /// known.
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
    fn list(&self, place: Place) -> Result<Vec<Listed>>;

    /// A whole file.
    fn read(&self, place: Place, name: &str) -> Result<Bytes>;

    /// A piece of a file; an error if the file ends before it does.
    fn read_range(&self, place: Place, name: &str, offset: u64, length: u64) -> Result<Bytes>;

    /// The same, but a file that ends earlier gives what it has.
    fn read_up_to(&self, place: Place, name: &str, offset: u64, length: u64) -> Result<Bytes> {
        self.read_range(place, name, offset, length)
    }

    /// Writes a file whole or not at all. When it returns the file survives
    /// a loss of power, and so do all that were written before it.
    fn write(&self, place: Place, name: &str, pieces: &[Bytes], pace: &Pace) -> Result<()>;

    /// Removes a file; fine when it is gone already.
    fn remove(&self, place: Place, name: &str) -> Result<()>;

    /// Removes what writers that died left half done. For who has the
    /// repository alone: it cannot tell them from the living.
    fn sweep(&self) -> Result<()>;
}

/// Opens the store of a location. Nothing is looked at yet.
pub(crate) fn open(location: &Location) -> Result<Arc<dyn Store>> {
    Ok(match location {
        Location::Folder(path) => Arc::new(folder::Folder::new(path.clone())),
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
    fn packs_lie_in_folders_by_their_first_digits() {
        assert_eq!(Place::Data.path("abcd"), "data/ab/abcd");
        assert_eq!(Place::Index.path("abcd"), "index/abcd");
        assert_eq!(Place::Config.path("abcd"), "config");
    }

    #[test]
    fn half_written_files_have_no_repository_name() {
        assert!(is_name(&"0a".repeat(32)));
        assert!(!is_name(&"0A".repeat(32)));
        assert!(!is_name(&format!("{}-tmp-1", "0a".repeat(32))));
    }
}
