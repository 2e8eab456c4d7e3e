//! A line of the log that is known to have been written.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{list, read_after};

/// A line of the log that is known to have been written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Its number; 0 before the first.
    pub number: u64,
    pub hash: String,
}

impl Anchor {
    /// Whether the log has this line. One that is older than what is kept
    /// counts as there.
    pub(crate) fn is_in(&self, directory: &Path) -> io::Result<bool> {
        let Some(before) = self.number.checked_sub(1) else {
            return Ok(true);
        };
        let oldest = list(directory)?.first().map(|(first, _)| *first);
        if oldest.is_some_and(|oldest| oldest > self.number) {
            return Ok(true);
        }
        let found = read_after(directory, before, 1)?;
        Ok(found
            .first()
            .is_some_and(|entry| entry.number == self.number && entry.hash == self.hash))
    }
}
