//! Whether the chain is whole.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use crate::files::{list, next_line};
use crate::head::Head;
use crate::{Anchor, Entry};

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
    /// Whether the hash that the caller gave is in it.
    pub has_anchor: bool,
}

/// Where a chain is broken.
#[derive(Debug, thiserror::Error)]
pub enum Defect {
    /// It cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Object of the entry.
        path: PathBuf,
        source: io::Error,
    },
    /// A line is not what was written.
    #[error("{path}, line {line}: changed after it was written, or not an audit entry", path = path.display())]
    Changed {
        path: PathBuf,
        /// Counted from 1.
        line: u64,
    },
    /// A line does not follow the one before.
    #[error("{path}, line {line}: entry {number} does not follow entry {after}: entries were removed or inserted", path = path.display())]
    Gap {
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        number: u64,
        /// Of the line before.
        after: u64,
    },
    /// The end of the log is missing, or was written by another.
    #[error("{path}, line {line}: the log ends with entry {last}, and entry {written} had been written: lines were cut off or written again", path = path.display())]
    Cut {
        /// The last file; the directory where there is none.
        path: PathBuf,
        /// Its last line, counted from 1; 0 where there is none.
        line: u64,
        /// The last line that is there.
        last: u64,
        /// The last line that had been written.
        written: u64,
    },
    /// The beginning of the log is missing.
    #[error("{path}: the log begins with entry {found}, and entry {first} was kept: files were removed", path = path.display())]
    Beginning {
        /// Where the log is.
        path: PathBuf,
        /// The first line that is there.
        found: u64,
        /// The first line that was kept.
        first: u64,
    },
}

/// Walks along the whole chain. The oldest file that is kept may follow one
/// that was removed by its age; from there on every line must follow the one
/// before. `noted` is a hash that was noted earlier.
pub fn verify(directory: &Path, noted: Option<&str>) -> Result<Chain, Defect> {
    walk(directory, noted, None).map(|walked| walked.chain)
}

/// The same, and whether the log ends where its head says, which the writer
/// keeps in a file. A log that is written to meanwhile may be longer.
pub fn verify_with_head(
    directory: &Path,
    head: &Path,
    noted: Option<&str>,
) -> Result<Chain, Defect> {
    // Before the log: what it names is there by then.
    let head = Head::read(head).map_err(|source| Defect::Io {
        path: head.to_owned(),
        source,
    })?;
    let expected = head.as_ref().and_then(Head::expected);
    let walked = walk(directory, noted, expected)?;
    let chain = &walked.chain;
    if let (Some(expected), false) = (expected, walked.has_expected) {
        let aged_out = chain.entries > 0 && expected.number < chain.first;
        if !aged_out {
            return Err(Defect::Cut {
                path: walked.path,
                line: walked.line,
                last: chain.last,
                written: expected.number,
            });
        }
    }
    // A log that an earlier release went on with is ahead of its head, and may
    // have been rotated since.
    let current = head.filter(|head| head.written.number == chain.last && chain.last > 0);
    match current {
        Some(head) if head.first < chain.first => Err(Defect::Beginning {
            path: directory.to_owned(),
            found: chain.first,
            first: head.first,
        }),
        _ => Ok(walked.chain),
    }
}

struct Walked {
    chain: Chain,
    /// The last line that was read.
    path: PathBuf,
    line: u64,
    /// Whether the line that was expected is there.
    has_expected: bool,
}

fn walk(
    directory: &Path,
    noted: Option<&str>,
    expected: Option<&Anchor>,
) -> Result<Walked, Defect> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Defect::Io { path, source }
    };
    let mut walked = Walked {
        chain: Chain::default(),
        path: directory.to_owned(),
        line: 0,
        has_expected: false,
    };
    // The number of the next line. Before the first, a file is named after it.
    let mut next = None;
    for (first, path) in list(directory).map_err(io(directory))? {
        let chain = &mut walked.chain;
        let file = File::open(&path).map_err(io(&path))?;
        let mut reader = BufReader::new(file);
        let mut line = 0;
        let mut next_number = next.unwrap_or(Some(first));
        while let Some(text) = next_line(&mut reader).map_err(io(&path))? {
            line += 1;
            let Some(entry) = Entry::unseal(&text) else {
                return Err(Defect::Changed { path, line });
            };
            let follows = chain.entries == 0 || entry.previous == chain.last_hash;
            if next_number != Some(entry.number) || !follows {
                return Err(Defect::Gap {
                    path,
                    line,
                    number: entry.number,
                    after: next_number.map_or(u64::MAX, |next| next.saturating_sub(1)),
                });
            }
            if chain.entries == 0 {
                chain.first = entry.number;
            }
            chain.entries += 1;
            chain.last = entry.number;
            chain.has_anchor |= noted == Some(entry.hash.as_str());
            walked.has_expected |= expected.is_some_and(|expected| {
                expected.number == entry.number && expected.hash == entry.hash
            });
            chain.last_hash = entry.hash;
            next_number = entry.number.checked_add(1);
        }
        next = Some(next_number);
        (walked.path, walked.line) = (path, line);
    }
    Ok(walked)
}
