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
    /// No line: only what was lost after the last one.
    pub is_gap: bool,
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
    dir: PathBuf,
    channel: Channel,
    /// The next byte to read, counted over the whole log.
    position: u64,
    /// Where to stop; none to go on forever.
    end: Option<u64>,
    segment: Option<Segment>,
    /// A line whose end has not been read, and where it begins.
    partial: BytesMut,
    partial_start: u64,
    /// Bytes lost and not yet reported.
    lost: u64,
    /// Losses according to the index so far.
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
    pub fn from_start(dir: &Path, channel: Channel) -> io::Result<Self> {
        let oldest = segments::starts(dir, channel)?
            .first()
            .copied()
            .unwrap_or(0);
        let mut reader = Self::at(dir, channel, oldest);
        // What was rotated away before the first read is missing all the same.
        reader.lost = oldest;
        Ok(reader)
    }

    /// Begins with the last `lines` lines there are.
    pub fn from_tail(dir: &Path, channel: Channel, lines: u32) -> io::Result<Self> {
        let position = tail_position(dir, channel, lines)?;
        Ok(Self::at(dir, channel, position))
    }

    /// Ends where the log ends now: a writer in a hurry must not keep a reader
    /// that wants the history alone.
    pub fn until_now(mut self) -> io::Result<Self> {
        let newest = segments::starts(&self.dir, self.channel)?.last().copied();
        let end = newest.map(|start| {
            let file = segments::path(&self.dir, self.channel, start);
            start + file.metadata().map_or(0, |metadata| metadata.len())
        });
        self.end = Some(end.unwrap_or(0));
        Ok(self)
    }

    /// Reads beyond the end that [`LogReader::until_now`] set.
    pub fn read_on(&mut self) {
        self.end = None;
    }

    fn at(dir: &Path, channel: Channel, position: u64) -> Self {
        Self {
            dir: dir.to_owned(),
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

    /// As [`LogReader::finish`]; then, where more was lost than lines have
    /// reported, `lost_in_all` bytes since the log began, the gap at its end.
    pub fn end(&mut self, lost_in_all: u64, out: &mut Vec<LogEntry>) {
        self.finish(out);
        let at_end = lost_in_all.saturating_sub(self.lost_known);
        let lost = std::mem::take(&mut self.lost) + at_end;
        self.lost_known += at_end;
        if lost > 0 {
            let times = self.segment.as_ref().map(|s| s.times.at(self.position));
            out.push(LogEntry {
                line: Bytes::new(),
                at_ns: times.unwrap_or_default().at_ns,
                lost,
                is_gap: true,
            });
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
        let file = match File::open(segments::path(&self.dir, self.channel, start)) {
            Ok(file) => file,
            // Rotated away between the look and the open: look again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        let times = TimeIndex::open(&segments::times_path(&self.dir, self.channel, start));
        self.segment = Some(Segment { start, file, times });
        Ok(true)
    }

    /// A log whose directory was removed meanwhile has no more segments; what is
    /// open can still be read.
    fn starts(&self) -> io::Result<Vec<u64>> {
        match segments::starts(&self.dir, self.channel) {
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
            is_gap: false,
        });
    }
}

/// Where the last `lines` lines begin, found from the end backwards.
fn tail_position(dir: &Path, channel: Channel, lines: u32) -> io::Result<u64> {
    let starts = segments::starts(dir, channel)?;
    let mut left = lines;
    let mut at_end = true;
    for start in starts.iter().rev() {
        let Ok(file) = File::open(segments::path(dir, channel, *start)) else {
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
#[path = "reader_tests.rs"]
mod tests;
