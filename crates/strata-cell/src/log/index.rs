//! The times of a segment: when bytes from an offset on were written, and
//! how many before them were lost.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::wire::TimeEntry;

const ENTRY: usize = size_of::<TimeEntry>();

/// The entries of one segment, read on as it grows.
#[derive(Debug, Default)]
pub(super) struct TimeIndex {
    file: Option<File>,
    entries: Vec<TimeEntry>,
}

impl TimeIndex {
    /// An index that is not there leaves the lines without times.
    pub(super) fn open(path: &Path) -> Self {
        Self {
            file: File::open(path).ok(),
            entries: Vec::new(),
        }
    }

    /// Reads what was added since the last time.
    pub(super) fn refresh(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut buffer = [0; ENTRY * 512];
        loop {
            let known = (self.entries.len() * ENTRY) as u64;
            let n = file.read_at(&mut buffer, known)?;
            self.entries.extend(parse(&buffer[..n]));
            if n < buffer.len() {
                return Ok(());
            }
        }
    }

    /// The last entry that begins at or before `offset`.
    pub(super) fn at(&self, offset: u64) -> TimeEntry {
        let after = self.entries.partition_point(|entry| entry.offset <= offset);
        match after.checked_sub(1) {
            Some(i) => self.entries[i],
            None => self.entries.first().copied().unwrap_or_default(),
        }
    }
}

fn parse(bytes: &[u8]) -> impl Iterator<Item = TimeEntry> + '_ {
    let number = |field: &[u8]| field.try_into().map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(ENTRY).map(move |entry| TimeEntry {
        offset: number(&entry[..8]),
        at_ns: number(&entry[8..16]),
        lost: number(&entry[16..24]),
    })
}

pub(super) fn encode(entry: &TimeEntry) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&entry.offset.to_ne_bytes());
    bytes[8..16].copy_from_slice(&entry.at_ns.to_ne_bytes());
    bytes[16..].copy_from_slice(&entry.lost.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_entry_that_covers_an_offset() {
        let entry = |offset, at_ns| TimeEntry {
            offset,
            at_ns,
            lost: 0,
        };
        let index = TimeIndex {
            file: None,
            entries: vec![entry(10, 1), entry(20, 2), entry(20, 3)],
        };
        for (offset, at_ns) in [(0, 1), (10, 1), (19, 1), (20, 3), (99, 3)] {
            assert_eq!(index.at(offset).at_ns, at_ns, "{offset}");
        }
        assert_eq!(TimeIndex::default().at(5), TimeEntry::default());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let parsed: Vec<_> = parse(&bytes).collect();
            prop_assert_eq!(parsed.len(), bytes.len() / ENTRY);
            let again: Vec<u8> = parsed.iter().flat_map(encode).collect();
            prop_assert_eq!(&again[..], &bytes[..again.len()]);
        }
    }
}
