//! Writing a log from this process: the daemon's own. What a cell's init
//! does for executables, in the same format.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::index::{TimeIndex, encode};
use super::{Channel, segments};
use crate::wire::TimeEntry;

/// The end of a log. Opening one that exists goes on where it ends.
#[derive(Debug)]
pub struct SegmentWriter {
    dir: PathBuf,
    channel: Channel,
    segment_bytes: u64,
    keep: usize,
    start: u64,
    len: u64,
    file: File,
    times: File,
    last_ns: u64,
    /// Bytes that could not be stored since the log began, and how many of
    /// them the index has.
    lost: u64,
    lost_told: u64,
    /// The last line was stored in part: the next one begins a new line.
    torn: bool,
}

impl SegmentWriter {
    /// Opens a log of at most `keep` segments of `segment_bytes`.
    pub fn open(dir: &Path, channel: Channel, segment_bytes: u64, keep: usize) -> io::Result<Self> {
        let start = segments::starts(dir, channel)?.last().copied().unwrap_or(0);
        let (file, times) = open_files(dir, channel, start)?;
        let len = file.metadata()?.len();
        let lost = lost_before(dir, channel, start);
        Ok(Self {
            dir: dir.to_owned(),
            channel,
            segment_bytes,
            keep: keep.max(2),
            start,
            len,
            file,
            times,
            last_ns: 0,
            lost,
            lost_told: lost,
            torn: false,
        })
    }

    /// Adds bytes that were written at `at_ns`. What a full disk does not take
    /// is counted, and reported with the next bytes that are stored.
    pub fn write(&mut self, bytes: &[u8], at_ns: u64) -> io::Result<()> {
        let mut stored = 0;
        let result = self.store(bytes, at_ns, &mut stored);
        if result.is_err() {
            self.lost += (bytes.len() - stored) as u64;
            self.torn |= stored > 0;
        }
        result
    }

    fn store(&mut self, bytes: &[u8], at_ns: u64, stored: &mut usize) -> io::Result<()> {
        if self.len >= self.segment_bytes {
            self.rotate()?;
        }
        if self.torn {
            self.file.write_all(b"\n")?;
            self.len += 1;
            self.torn = false;
        }
        if at_ns != self.last_ns || self.lost != self.lost_told {
            let entry = TimeEntry {
                offset: self.start + self.len,
                at_ns,
                lost: self.lost,
            };
            self.times.write_all(&encode(&entry))?;
            (self.last_ns, self.lost_told) = (at_ns, self.lost);
        }
        while *stored < bytes.len() {
            match self.file.write(&bytes[*stored..])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    *stored += n;
                    self.len += n as u64;
                }
            }
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let start = self.start + self.len;
        (self.file, self.times) = open_files(&self.dir, self.channel, start)?;
        (self.start, self.len, self.last_ns) = (start, 0, 0);
        let starts = segments::starts(&self.dir, self.channel)?;
        for old in &starts[..starts.len().saturating_sub(self.keep)] {
            fs::remove_file(segments::path(&self.dir, self.channel, *old))?;
            let _ = fs::remove_file(segments::times_path(&self.dir, self.channel, *old));
        }
        Ok(())
    }
}

/// What had been lost when a log was last written to.
fn lost_before(dir: &Path, channel: Channel, start: u64) -> u64 {
    let mut times = TimeIndex::open(&segments::times_path(dir, channel, start));
    match times.refresh() {
        Ok(()) => times.at(u64::MAX).lost,
        Err(_) => 0,
    }
}

fn open_files(dir: &Path, channel: Channel, start: u64) -> io::Result<(File, File)> {
    let open = |path| {
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
    };
    let times = open(segments::times_path(dir, channel, start))?;
    Ok((open(segments::path(dir, channel, start))?, times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LogReader, Read};

    #[test]
    fn old_segments_go_and_the_rest_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(dir.path(), Channel::Daemon, 100, 3).unwrap();
        for _ in 0..100 {
            writer.write(&[b'x'; 50], 1).unwrap();
        }
        let starts = segments::starts(dir.path(), Channel::Daemon).unwrap();
        assert_eq!(starts.len(), 3);
        let files = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files, 6);
    }

    #[test]
    fn bytes_that_were_not_stored_are_a_gap_before_the_next_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(dir.path(), Channel::Daemon, 100, 3).unwrap();
        writer.write(b"one\n", 1).unwrap();
        // Nothing can be written to a file that is open for reading alone.
        let path = segments::path(dir.path(), Channel::Daemon, 0);
        let whole = std::mem::replace(&mut writer.file, File::open(path).unwrap());
        writer.write(b"lost\n", 2).unwrap_err();
        writer.write(b"lost too\n", 3).unwrap_err();
        writer.file = whole;
        writer.write(b"two\n", 4).unwrap();
        let mut again = SegmentWriter::open(dir.path(), Channel::Daemon, 100, 3).unwrap();
        again.write(b"three\n", 5).unwrap();
        let mut reader = LogReader::from_start(dir.path(), Channel::Daemon).unwrap();
        let mut out = Vec::new();
        while reader.read(&mut out).unwrap() == Read::Some {}
        let shown: Vec<_> = out.iter().map(|e| (&e.line[..], e.lost)).collect();
        assert_eq!(shown, [(&b"one"[..], 0), (b"two", 14), (b"three", 0)]);
    }

    #[test]
    fn opening_again_goes_on_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["a\n", "b\n"] {
            let mut writer = SegmentWriter::open(dir.path(), Channel::Daemon, 100, 3).unwrap();
            writer.write(text.as_bytes(), 1).unwrap();
        }
        let path = segments::path(dir.path(), Channel::Daemon, 0);
        assert_eq!(fs::read_to_string(path).unwrap(), "a\nb\n");
    }
}
