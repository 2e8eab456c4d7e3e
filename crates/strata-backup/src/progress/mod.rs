//! How far an operation is, for its caller.

mod meter;
mod report;

use std::fmt;
use std::time::Duration;

pub(crate) use report::{Bars, Reporter};

/// Receives how far an operation is, a few times a second, from any thread.
/// Must not block.
pub trait Progress: Send + Sync + 'static {
    /// Where it stands now.
    fn report(&self, status: &Status);
}

/// For callers that need no progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _: &Status) {}
}

/// What an operation is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// Opening the repository and reading its index.
    #[default]
    Opening,
    /// Reading files and writing what is new.
    Saving,
    Restoring,
    /// Reading what the repository records of itself.
    Checking,
    /// Reading files back and comparing them.
    Comparing,
    /// Finding what no backup needs.
    Planning,
    /// Writing again what is partly needed, and removing the rest.
    Freeing,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "opening the repository",
            Self::Saving => "saving",
            Self::Restoring => "restoring",
            Self::Checking => "checking the repository",
            Self::Comparing => "comparing",
            Self::Planning => "finding what is not needed",
            Self::Freeing => "freeing space",
        })
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Status {
    /// What it is at.
    pub phase: Phase,
    /// How many files it has dealt with.
    pub files: u64,
    /// How many of them had to be opened and read.
    pub files_read: u64,
    /// How many bytes it has dealt with.
    pub bytes: u64,
    /// How many there are, where that is known or can be guessed.
    pub bytes_total: Option<u64>,
    /// Bytes a second, over the last seconds.
    pub rate: Option<u64>,
    /// How long it will still take at that rate.
    pub remaining: Option<Duration>,
}
