//! Writing a log from this process: the daemon's own. What a cell's init
//! does for executables, in the same format.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::index::encode;
use super::{Channel, segments};
use crate::wire::TimeEntry;

/// The end of a log. Opening one that exists goes on where it ends.
#[derive(Debug)]
pub struct SegmentWriter {
    folder: PathBuf,
    channel: Channel,
    segment_bytes: u64,
    keep: usize,
    start: u64,
    len: u64,
    file: File,
    times: File,
    last_ns: u64,
}

impl SegmentWriter {
    /// Opens a log of at most `keep` segments of `segment_bytes`.
    pub fn open(
        folder: &Path,
        channel: Channel,
        segment_bytes: u64,
        keep: usize,
    ) -> io::Result<Self> {
        let start = segments::starts(folder, channel)?
            .last()
            .copied()
            .unwrap_or(0);
        let (file, times) = open_files(folder, channel, start)?;
        let len = file.metadata()?.len();
        Ok(Self {
            folder: folder.to_owned(),
            channel,
            segment_bytes,
            keep: keep.max(2),
            start,
            len,
            file,
            times,
            last_ns: 0,
        })
    }

    /// Adds bytes that were written at `at_ns`.
    pub fn write(&mut self, bytes: &[u8], at_ns: u64) -> io::Result<()> {
        if self.len >= self.segment_bytes {
            self.rotate()?;
        }
        if at_ns != self.last_ns {
            let entry = TimeEntry {
                offset: self.start + self.len,
                at_ns,
                lost: 0,
            };
            self.times.write_all(&encode(&entry))?;
            self.last_ns = at_ns;
        }
        self.file.write_all(bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let start = self.start + self.len;
        (self.file, self.times) = open_files(&self.folder, self.channel, start)?;
        (self.start, self.len, self.last_ns) = (start, 0, 0);
        let starts = segments::starts(&self.folder, self.channel)?;
        for old in &starts[..starts.len().saturating_sub(self.keep)] {
            fs::remove_file(segments::path(&self.folder, self.channel, *old))?;
            let _ = fs::remove_file(segments::times_path(&self.folder, self.channel, *old));
        }
        Ok(())
    }
}

fn open_files(folder: &Path, channel: Channel, start: u64) -> io::Result<(File, File)> {
    let open = |path| {
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
    };
    let times = open(segments::times_path(folder, channel, start))?;
    Ok((open(segments::path(folder, channel, start))?, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_segments_go_and_the_rest_stays_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(folder.path(), Channel::Daemon, 100, 3).unwrap();
        for _ in 0..100 {
            writer.write(&[b'x'; 50], 1).unwrap();
        }
        let starts = segments::starts(folder.path(), Channel::Daemon).unwrap();
        assert_eq!(starts.len(), 3);
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 6);
    }

    #[test]
    fn opening_again_goes_on_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["a\n", "b\n"] {
            let mut writer = SegmentWriter::open(folder.path(), Channel::Daemon, 100, 3).unwrap();
            writer.write(text.as_bytes(), 1).unwrap();
        }
        let path = segments::path(folder.path(), Channel::Daemon, 0);
        assert_eq!(fs::read_to_string(path).unwrap(), "a\nb\n");
    }
}
