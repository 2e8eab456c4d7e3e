//! How far the log was written, in a file beside it. A chain shows what was
//! changed within it, and not what was cut off at its end: that takes knowing
//! where the end was.
//!
//! The file is one record of a fixed size, overwritten in place after each line
//! of the log. What the process wrote survives its death, so on the same boot the
//! log has to have the last line. A power cut can cost lines that were not
//! synced, and after it the log has to have the last line that was.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Anchor;

/// Less than a sector: it is written whole or not at all.
const SIZE: usize = 480;
/// A reader may see a record that is being overwritten.
const READS: usize = 10;

/// Where a log ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// During which boot of the host this was written.
    boot: String,
    /// The first line of the oldest file.
    pub(crate) first: u64,
    /// The last line.
    pub(crate) written: Anchor,
    /// The last line that survives a power cut.
    synced: Anchor,
}

impl Head {
    pub(crate) fn new(first: u64, written: Anchor) -> Self {
        Self {
            boot: boot(),
            first,
            synced: written.clone(),
            written,
        }
    }

    /// Everything up to the last line was synced.
    pub(crate) fn set_synced(&mut self, synced: Anchor) {
        self.synced = synced;
    }

    /// The line that the log has to have now; none before the first.
    pub(crate) fn expected(&self) -> Option<&Anchor> {
        let anchor = match self.boot == boot() {
            true => &self.written,
            false => &self.synced,
        };
        (anchor.number > 0).then_some(anchor)
    }

    /// The content of a file; none where there is no file.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        let mut last = None;
        for _ in 0..READS {
            let mut text = String::new();
            match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?.take(SIZE as u64).read_to_string(&mut text)?,
            };
            match serde_json::from_str(text.trim_end()) {
                Ok(head) => return Ok(Some(head)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| io::ErrorKind::InvalidData.into(), io::Error::from))
    }

    /// Writes it in place.
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        if text.len() >= SIZE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        text.resize(SIZE - 1, b' ');
        text.push(b'\n');
        file.write_all_at(&text, 0)
    }
}

/// Opens the file of a head to write to, for its owner alone.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.mode(0o600).open(path)
}

/// Names the boot of the host; empty where the kernel does not report it.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(number: u64) -> Anchor {
        let hash = "f".repeat(crate::entry::HASH_LENGTH);
        Anchor { number, hash }
    }

    #[test]
    fn head_comes_back_as_it_was_written_at_any_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("head");
        assert_eq!(Head::read(&path).unwrap(), None);
        let file = open(&path).unwrap();
        for number in [u64::MAX, 7] {
            let head = Head::new(number, anchor(number));
            head.write(&file).unwrap();
            assert_eq!(Head::read(&path).unwrap(), Some(head));
            assert_eq!(file.metadata().unwrap().len(), SIZE as u64);
        }
        std::fs::write(&path, "{").unwrap();
        assert!(Head::read(&path).is_err());
    }

    #[test]
    fn power_cut_may_cost_what_was_not_synced() {
        let mut head = Head::new(1, anchor(5));
        head.written = anchor(9);
        assert_eq!(head.expected(), Some(&anchor(9)));
        head.boot = "another".into();
        assert_eq!(head.expected(), Some(&anchor(5)));
        assert_eq!(Head::new(1, Anchor::default()).expected(), None);
    }
}
