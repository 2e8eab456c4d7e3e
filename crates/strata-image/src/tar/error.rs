//! Why a stream is not a tar that we read.

use std::io;

/// Why a stream is not a tar that we read.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The stream under it failed.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It ended within an entry.
    #[error("the tar ends in the middle of an entry")]
    Truncated,
    /// A header whose checksum is wrong.
    #[error("a tar header has a wrong checksum: this is not a tar, or it is damaged")]
    Checksum,
    /// A number that is none, or too large.
    #[error("the tar header field {0} is not a number in range")]
    Number(&'static str),
    /// A kind of entry that no tool puts in a layer.
    #[error("a tar entry has the unknown type {0:?}")]
    Kind(char),
    /// A PAX record that is not `length key=value`.
    #[error("a PAX header is malformed")]
    Pax,
    /// A long name or PAX header beyond all reason.
    #[error("a tar extension header has {0} bytes, more than allowed")]
    ExtensionTooLarge(u64),
    /// A sparse map that is out of order, overlaps or leaves the file.
    #[error("the sparse map of a tar entry is malformed")]
    Sparse,
}
