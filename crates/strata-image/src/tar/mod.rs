//! A reader of tar streams: headers, long names, PAX records, sparse maps.
//!
//! Our own rather than the `tar` crate's. That one reads long names and PAX
//! records of any size into memory, copies file data through its own buffers,
//! and is of use only if it owns extraction; the format itself is small. This
//! one bounds everything it keeps, hands out file data as slices of the
//! caller's buffer, and is independent of file systems.

mod error;
mod header;
mod pax;
mod reader;
mod sparse;
#[cfg(test)]
mod tests;

pub use error::TarError;
pub(crate) use reader::TarReader;
pub(crate) use sparse::Span;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    HardLink,
    Symlink,
    CharDevice,
    BlockDevice,
    Directory,
    Fifo,
}

/// One entry, with everything that PAX records or long names add to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// As written: may be absolute, may hold `..`.
    pub(crate) path: Vec<u8>,
    /// Target of a link, as written.
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds and nanoseconds.
    pub(crate) mtime: (i64, u32),
    pub(crate) device: (u32, u32),
    /// Bytes of data that follow in the stream.
    pub(crate) stored: u64,
    /// Size of the file; larger than `stored` when it has holes.
    pub(crate) size: u64,
    /// Where the stored bytes go, when the file has holes.
    pub(crate) sparse: Option<Vec<Span>>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}
