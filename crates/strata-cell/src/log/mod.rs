//! Logs on disk: plain bytes in segment files that a person can `cat`, named
//! by where they begin, and beside each a small index of times.
//!
//! ```text
//! stdout.00000000000000000000      bytes 0 to 8388608 of the log
//! stdout.00000000000000000000.t    when they were written
//! stdout.00000000000008388608      the rest, still growing
//! ```
//!
//! A cell's init writes them for executables, [`SegmentWriter`] for the
//! daemon's own log. A reader holds its place as an offset into the whole
//! log, so rotation is no event for it, and it never holds up a writer.

mod index;
mod reader;
mod segments;
mod writer;

pub use reader::{LogEntry, LogReader, Read};
pub use writer::SegmentWriter;

/// Which output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    Stdout,
    Stderr,
    /// The daemon's own log.
    Daemon,
}

impl Channel {
    /// The first part of the files' names.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Daemon => "daemon",
        }
    }
}
