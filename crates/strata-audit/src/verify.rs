//! Whether the chain is whole.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use crate::Entry;
use crate::files::{list, next_line};

/// What a chain is found to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// How many lines hold.
    pub entries: u64,
    /// The number of the oldest line that is kept.
    pub first: u64,
    /// The number of the last line.
    pub last: u64,
    /// The hash of the last line, to be noted elsewhere.
    pub last_hash: String,
    /// Whether the hash that was asked for is in it.
    pub has_anchor: bool,
}

/// Where a chain is broken.
#[derive(Debug, thiserror::Error)]
pub enum Defect {
    /// It cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Of what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what was written.
    #[error("{path}, line {line}: changed after it was written, or no line of an audit log", path = path.display())]
    Changed {
        /// In which file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
    },
    /// A line does not follow the one before.
    #[error("{path}, line {line}: entry {number} does not follow entry {after}: lines were removed or put in between", path = path.display())]
    Gap {
        /// In which file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// Of the line.
        number: u64,
        /// Of the line before.
        after: u64,
    },
}

/// Walks along the whole chain. The oldest file that is kept may follow one
/// that was removed by its age; from there on every line must follow the one
/// before. `anchor` is a hash that was noted earlier.
pub fn verify(directory: &Path, anchor: Option<&str>) -> Result<Chain, Defect> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Defect::Io { path, source }
    };
    let mut chain = Chain::default();
    for (_, path) in list(directory).map_err(io(directory))? {
        let file = File::open(&path).map_err(io(&path))?;
        let mut reader = BufReader::new(file);
        let mut line = 0;
        while let Some(text) = next_line(&mut reader).map_err(io(&path))? {
            line += 1;
            let Some(entry) = Entry::unseal(&text) else {
                return Err(Defect::Changed { path, line });
            };
            let follows = chain.last.checked_add(1) == Some(entry.number)
                && entry.previous == chain.last_hash;
            if chain.entries > 0 && !follows {
                return Err(Defect::Gap {
                    path,
                    line,
                    number: entry.number,
                    after: chain.last,
                });
            }
            if chain.entries == 0 {
                chain.first = entry.number;
            }
            chain.entries += 1;
            chain.last = entry.number;
            chain.has_anchor |= anchor == Some(entry.hash.as_str());
            chain.last_hash = entry.hash;
        }
    }
    Ok(chain)
}
