//! Reading a log from any place, at any pace, while it is written and
//! rotated. Lines are slices of what was read, not copies.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};

use super::index::TimeIndex;
use super::{Channel, segments};

/// How much is read at once.
const CHUNK: usize = 256 << 10;
/// A longer line is delivered in pieces, so that a reader's memory is bounded.
const MAX_LINE: usize = 1 << 20;

/// One line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The bytes as they were written.
    pub line: Bytes,
    /// Unix nanoseconds.
    pub at_ns: u64,
    /// Bytes that were lost between the line before and this one.
    pub lost: u64,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Something; there may be more at once.
    Some,
    /// Nothing more for now.
    CaughtUp,
}

/// A place in a log.
#[derive(Debug)]
pub struct LogReader {
    folder: PathBuf,
    channel: Channel,
    /// The next byte to read, counted over the whole log.
    position: u64,
    /// Where to stop; none to go on for ever.
    end: Option<u64>,
    segment: Option<Segment>,
    /// A line whose end has not been read, and where it begins.
    partial: BytesMut,
    partial_start: u64,
    /// Bytes lost and not yet told of.
    lost: u64,
    /// What the index has told of losses so far.
    lost_known: u64,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    file: File,
    times: TimeIndex,
}

impl LogReader {
    /// Begins at the oldest line there is.
    pub fn from_start(folder: &Path, channel: Channel) -> io::Result<Self> {
        let oldest = segments::starts(folder, channel)?
            .first()
            .copied()
            .unwrap_or(0);
        let mut reader = Self::at(folder, channel, oldest);
        // What was rotated away before anybody came is missing all the same.
        reader.lost = oldest;
        Ok(reader)
    }

    /// Begins with the last `lines` lines there are.
    pub fn from_tail(folder: &Path, channel: Channel, lines: u32) -> io::Result<Self> {
        let position = tail_position(folder, channel, lines)?;
        Ok(Self::at(folder, channel, position))
    }

    /// Ends where the log ends now: a writer in a hurry must not keep a reader
    /// who wants the history alone.
    pub fn until_now(mut self) -> io::Result<Self> {
        let newest = segments::starts(&self.folder, self.channel)?
            .last()
            .copied();
        let end = newest.map(|start| {
            let file = segments::path(&self.folder, self.channel, start);
            start + file.metadata().map_or(0, |metadata| metadata.len())
        });
        self.end = Some(end.unwrap_or(0));
        Ok(self)
    }

    fn at(folder: &Path, channel: Channel, position: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            channel,
            position,
            end: None,
            segment: None,
            partial: BytesMut::new(),
            partial_start: position,
            lost: 0,
            lost_known: 0,
        }
    }

    /// Reads on, adding whole lines to `out`.
    pub fn read(&mut self, out: &mut Vec<LogEntry>) -> io::Result<Read> {
        match self.next(out)? {
            Some(chunk) => self.split(&chunk, out).map(|()| Read::Some),
            None => Ok(Read::CaughtUp),
        }
    }

    /// Reads on, without a look at lines; none when there is nothing more for
    /// now. Not to be mixed with [`LogReader::read`].
    pub fn read_raw(&mut self) -> io::Result<Option<Bytes>> {
        let chunk = self.next(&mut Vec::new())?;
        self.position += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Ok(chunk)
    }

    /// The bytes at the position.
    fn next(&mut self, out: &mut Vec<LogEntry>) -> io::Result<Option<Bytes>> {
        loop {
            let left = self
                .end
                .map_or(u64::MAX, |end| end.saturating_sub(self.position));
            if left == 0 {
                return Ok(None);
            }
            if self.segment.is_none() && !self.open_segment(out)? {
                return Ok(None);
            }
            let Some(segment) = &self.segment else {
                continue;
            };
            let mut chunk = BytesMut::zeroed(CHUNK);
            let n = segment
                .file
                .read_at(&mut chunk, self.position - segment.start)?;
            if n > 0 {
                chunk.truncate(n.min(usize::try_from(left).unwrap_or(n)));
                return Ok(Some(chunk.freeze()));
            }
            if !self.is_rotated()? {
                return Ok(None);
            }
        }
    }

    /// Delivers a last line that has no end, once no more will be written.
    pub fn finish(&mut self, out: &mut Vec<LogEntry>) {
        if !self.partial.is_empty() {
            let line = self.partial.split().freeze();
            self.push(line, self.partial_start, out);
        }
    }

    /// Opens the segment that holds the position; false when there is none.
    fn open_segment(&mut self, out: &mut Vec<LogEntry>) -> io::Result<bool> {
        let starts = self.starts()?;
        let Some(oldest) = starts.first().copied() else {
            return Ok(false);
        };
        if oldest > self.position {
            self.finish(out);
            self.lost += oldest - self.position;
            self.position = oldest;
        }
        let after = starts.partition_point(|start| *start <= self.position);
        let start = starts[after.max(1) - 1];
        let file = match File::open(segments::path(&self.folder, self.channel, start)) {
            Ok(file) => file,
            // Rotated away between the look and the open: look again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        let times = TimeIndex::open(&segments::times_path(&self.folder, self.channel, start));
        self.segment = Some(Segment { start, file, times });
        Ok(true)
    }

    /// A log whose folder was removed meanwhile has no more segments; what is
    /// open can still be read.
    fn starts(&self) -> io::Result<Vec<u64>> {
        match segments::starts(&self.folder, self.channel) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            starts => starts,
        }
    }

    /// At the end of a segment: moves to the next one if there is one.
    fn is_rotated(&mut self) -> io::Result<bool> {
        let Some(segment) = &self.segment else {
            return Ok(false);
        };
        let starts = self.starts()?;
        if starts.last().is_none_or(|newest| *newest <= segment.start) {
            return Ok(false);
        }
        // Bytes written after our read and before the rotation come first.
        let end = segment.start + segment.file.metadata()?.len();
        if self.position >= end {
            self.segment = None;
        }
        Ok(true)
    }

    fn split(&mut self, chunk: &Bytes, out: &mut Vec<LogEntry>) -> io::Result<()> {
        let chunk_start = self.position;
        self.position += chunk.len() as u64;
        if let Some(segment) = &mut self.segment {
            segment.times.refresh()?;
        }
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', chunk) {
            let piece = chunk.slice(begin..end);
            let start = chunk_start + begin as u64;
            if self.partial.is_empty() {
                self.push(piece, start, out);
            } else {
                self.partial.extend_from_slice(&piece);
                self.finish(out);
            }
            begin = end + 1;
        }
        if begin < chunk.len() {
            if self.partial.is_empty() {
                self.partial_start = chunk_start + begin as u64;
            }
            self.partial.extend_from_slice(&chunk[begin..]);
            if self.partial.len() >= MAX_LINE {
                self.finish(out);
            }
        }
        Ok(())
    }

    fn push(&mut self, line: Bytes, start: u64, out: &mut Vec<LogEntry>) {
        let entry = self
            .segment
            .as_ref()
            .map(|s| s.times.at(start))
            .unwrap_or_default();
        let lost = std::mem::take(&mut self.lost) + entry.lost.saturating_sub(self.lost_known);
        self.lost_known = self.lost_known.max(entry.lost);
        out.push(LogEntry {
            line,
            at_ns: entry.at_ns,
            lost,
        });
    }
}

/// Where the last `lines` lines begin, found from the end backwards.
fn tail_position(folder: &Path, channel: Channel, lines: u32) -> io::Result<u64> {
    let starts = segments::starts(folder, channel)?;
    let mut left = lines;
    let mut at_end = true;
    for start in starts.iter().rev() {
        let Ok(file) = File::open(segments::path(folder, channel, *start)) else {
            break;
        };
        let mut end = file.metadata()?.len();
        while end > 0 {
            let begin = end.saturating_sub(CHUNK as u64);
            let mut chunk = vec![0; (end - begin) as usize];
            file.read_exact_at(&mut chunk, begin)?;
            for newline in memchr::memrchr_iter(b'\n', &chunk) {
                let after = begin + newline as u64 + 1;
                // The newline that ends the log begins no line.
                if std::mem::take(&mut at_end) && after == end {
                    if left == 0 {
                        return Ok(start + after);
                    }
                    continue;
                }
                if left <= 1 {
                    return Ok(start + after);
                }
                left -= 1;
            }
            at_end = false;
            end = begin;
        }
    }
    Ok(starts.first().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::log::SegmentWriter;

    const CHANNEL: Channel = Channel::Stdout;

    fn lines(reader: &mut LogReader) -> Vec<String> {
        let mut out = Vec::new();
        while reader.read(&mut out).unwrap() == Read::Some {}
        reader.finish(&mut out);
        out.iter()
            .map(|entry| String::from_utf8_lossy(&entry.line).into_owned())
            .collect()
    }

    #[test]
    fn reads_across_segments_and_delivers_a_partial_last_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(folder.path(), CHANNEL, 10, 100).unwrap();
        for line in ["one\n", "two\n", "a longer line\n", "end"] {
            writer.write(line.as_bytes(), 7).unwrap();
        }
        let mut reader = LogReader::from_start(folder.path(), CHANNEL).unwrap();
        assert_eq!(lines(&mut reader), ["one", "two", "a longer line", "end"]);
    }

    #[test]
    fn a_reader_that_is_overtaken_tells_how_much_it_missed() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(folder.path(), CHANNEL, 8, 2).unwrap();
        let mut reader = LogReader::from_start(folder.path(), CHANNEL).unwrap();
        for i in 0..10 {
            writer.write(format!("line {i}\n").as_bytes(), 1).unwrap();
        }
        let mut out = Vec::new();
        while reader.read(&mut out).unwrap() == Read::Some {}
        let kept: usize = out.iter().map(|entry| entry.line.len() + 1).sum();
        assert!(out[0].lost > 0);
        assert_eq!(out[0].lost as usize + kept, 70);
        assert_eq!(out.last().unwrap().line, "line 9");
    }

    #[test]
    fn lines_carry_the_time_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(folder.path(), CHANNEL, 1000, 2).unwrap();
        writer.write(b"a\n", 1_000_000_000).unwrap();
        writer.write(b"b\n", 2_000_000_000).unwrap();
        let mut reader = LogReader::from_start(folder.path(), CHANNEL).unwrap();
        let mut out = Vec::new();
        reader.read(&mut out).unwrap();
        assert_eq!(
            out.iter().map(|e| e.at_ns).collect::<Vec<_>>(),
            [1_000_000_000, 2_000_000_000]
        );
    }

    #[test]
    fn a_reader_of_the_history_alone_ends_where_the_log_ended_when_it_came() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(folder.path(), CHANNEL, 1000, 2).unwrap();
        writer.write(b"a\nb", 1).unwrap();
        let reader = LogReader::from_start(folder.path(), CHANNEL).unwrap();
        let mut reader = reader.until_now().unwrap();
        writer.write(b"c\nd\n", 1).unwrap();
        assert_eq!(lines(&mut reader), ["a", "b"]);
    }

    #[test]
    fn an_empty_or_missing_log_is_caught_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = LogReader::from_start(folder.path(), CHANNEL).unwrap();
        assert_eq!(reader.read(&mut Vec::new()).unwrap(), Read::CaughtUp);
        assert!(LogReader::from_start(&folder.path().join("gone"), CHANNEL).is_err());
    }

    #[test]
    fn a_line_without_end_is_delivered_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(folder.path(), CHANNEL, 64 << 20, 2).unwrap();
        writer.write(&vec![b'x'; 3 * MAX_LINE], 1).unwrap();
        let mut reader = LogReader::from_start(folder.path(), CHANNEL).unwrap();
        let mut out = Vec::new();
        while reader.read(&mut out).unwrap() == Read::Some {}
        reader.finish(&mut out);
        assert!(out.iter().all(|entry| entry.line.len() <= MAX_LINE + CHUNK));
        assert_eq!(
            out.iter().map(|e| e.line.len()).sum::<usize>(),
            3 * MAX_LINE
        );
    }

    #[test]
    fn a_foreign_file_in_the_folder_is_no_segment() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("stdout.x"), "no").unwrap();
        let mut reader = LogReader::from_start(folder.path(), CHANNEL).unwrap();
        assert_eq!(lines(&mut reader), Vec::<String>::new());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_was_written_is_read_in_order(
            written in proptest::collection::vec("[a-z]{0,30}", 0..60),
            segment in 5u64..200,
            tail in 0u32..70,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = SegmentWriter::open(folder.path(), CHANNEL, segment, 1000).unwrap();
            for line in &written {
                writer.write(format!("{line}\n").as_bytes(), 1).unwrap();
            }
            let mut reader = LogReader::from_start(folder.path(), CHANNEL).unwrap();
            prop_assert_eq!(&lines(&mut reader), &written);
            let mut reader = LogReader::from_tail(folder.path(), CHANNEL, tail).unwrap();
            let skip = written.len().saturating_sub(tail as usize);
            prop_assert_eq!(&lines(&mut reader)[..], &written[skip..]);
        }
    }
}
