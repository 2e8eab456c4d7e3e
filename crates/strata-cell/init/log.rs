//! One output channel of one run: bytes go from its pipe to segment files
//! without passing through this process, and a small index beside each segment
//! holds the times. Old segments go when there are too many. A full disk costs
//! lines, counted, never the process that wrote them.

use core::ffi::CStr;

use crate::Once;
use crate::link::bytes_of;
use crate::sys;
use crate::wire::TimeEntry;

/// The most segments of one channel.
const MAX_SEGMENTS: usize = 16;
/// Bytes moved before others get their turn.
const BYTES_PER_TURN: usize = 4 << 20;
/// The least time between two index entries: 1 ms.
const RESOLUTION_NS: u64 = 1_000_000;

static SCRATCH: Once<[u8; 65536]> = Once::new([0; 65536]);

pub struct Log {
    /// The pipe's end to read from, or the terminal's; none once it is closed.
    pub pipe: i32,
    /// It is a terminal: bytes have to pass through this process.
    pub terminal: bool,
    file: i32,
    times: i32,
    times_len: u64,
    channel: u8,
    /// Where the current segment begins, counted over the whole log.
    start: u64,
    len: u64,
    starts: [u64; MAX_SEGMENTS],
    count: usize,
    keep: usize,
    segment_bytes: u64,
    /// Bytes that could not be stored.
    pub lost: u64,
    lost_told: u64,
    last_entry_ns: u64,
}

impl Log {
    pub const CLOSED: Self = Self {
        pipe: sys::NONE,
        terminal: false,
        file: sys::NONE,
        times: sys::NONE,
        times_len: 0,
        channel: 0,
        start: 0,
        len: 0,
        starts: [0; MAX_SEGMENTS],
        count: 0,
        keep: 0,
        segment_bytes: 0,
        lost: 0,
        lost_told: 0,
        last_entry_ns: 0,
    };

    /// Files are made when there is something to put into them: many programs
    /// write nothing, on one channel or on both.
    pub fn open(&mut self, channel: u8, keep: u32, bytes: u64) {
        *self = Self {
            channel,
            keep: (keep as usize).clamp(2, MAX_SEGMENTS),
            segment_bytes: bytes.max(4096),
            ..Self::CLOSED
        };
    }

    /// Opens the segment that begins where the log now ends, and drops the
    /// oldest one when there are too many.
    fn begin_segment(&mut self, dir: i32) -> sys::Result<()> {
        let start = self.start + self.len;
        let mut name = Name::new(self.channel, start);
        let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_TRUNC | sys::O_CLOEXEC;
        let times = sys::openat(dir, name.times(), flags, 0o600)?;
        let file = match sys::openat(dir, name.data(), flags, 0o600) {
            Ok(file) => file,
            Err(errno) => {
                sys::close(times);
                return Err(errno);
            }
        };
        self.close_files();
        (self.file, self.times, self.times_len) = (file, times, 0);
        (self.start, self.len, self.last_entry_ns) = (start, 0, 0);
        if self.count == self.keep {
            let mut oldest = Name::new(self.channel, self.starts[0]);
            let _ = sys::unlinkat(dir, oldest.data());
            let _ = sys::unlinkat(dir, oldest.times());
            self.starts.copy_within(1..self.count, 0);
            self.count -= 1;
        }
        self.starts[self.count] = start;
        self.count += 1;
        Ok(())
    }

    /// Moves what is in the pipe; true once no writer is left.
    pub fn pump(&mut self, dir: i32) -> bool {
        let mut moved = 0;
        while self.pipe != sys::NONE && moved < BYTES_PER_TURN {
            let result = match self.file {
                sys::NONE => self.begin(dir),
                _ => self.go_on(dir),
            };
            match result {
                Ok(0) => return true,
                Ok(n) => moved += n,
                Err(sys::EINTR) => {}
                Err(_) => return false,
            }
        }
        self.pipe == sys::NONE
    }

    /// The first bytes pass through this process: only they show that there is
    /// something to make a file for.
    fn begin(&mut self, dir: i32) -> sys::Result<usize> {
        let scratch = SCRATCH.take();
        let n = self.take(scratch)?;
        if n == 0 {
            return Ok(0);
        }
        match self.begin_segment(dir) {
            Ok(()) => {
                self.note_time();
                self.store(&scratch[..n]);
            }
            Err(_) => self.lost += n as u64,
        }
        Ok(n)
    }

    /// The next bytes. A terminal that no process has open any more is an error
    /// for its other end, and means that there are no more.
    fn take(&self, buffer: &mut [u8]) -> sys::Result<usize> {
        match sys::read(self.pipe, buffer) {
            Err(sys::EIO) if self.terminal => Ok(0),
            read => read,
        }
    }

    fn store(&mut self, bytes: &[u8]) {
        let stored = sys::pwrite(self.file, bytes, self.len).unwrap_or(0);
        self.len += stored as u64;
        self.lost += (bytes.len() - stored) as u64;
    }

    /// Further bytes go from the pipe to the file directly. When the disk takes
    /// nothing they are read and discarded, and counted.
    fn go_on(&mut self, dir: i32) -> sys::Result<usize> {
        // The index counts: many small writes make more of it than of lines.
        let is_full = self.len + self.times_len >= self.segment_bytes;
        if is_full && self.begin_segment(dir).is_err() {
            return self.discard();
        }
        self.note_time();
        let room = self.segment_bytes.saturating_sub(self.len).clamp(1, 1 << 20) as usize;
        if self.terminal {
            let scratch = SCRATCH.take();
            let room = room.min(scratch.len());
            let n = self.take(&mut scratch[..room])?;
            self.store(&scratch[..n]);
            return Ok(n);
        }
        match sys::splice(self.pipe, self.file, self.len, room) {
            Ok(n) => {
                self.len += n as u64;
                Ok(n)
            }
            Err(errno @ (sys::EAGAIN | sys::EINTR)) => Err(errno),
            Err(_) => self.discard(),
        }
    }

    fn discard(&mut self) -> sys::Result<usize> {
        let n = self.take(SCRATCH.take())?;
        self.lost += n as u64;
        Ok(n)
    }

    fn note_time(&mut self) {
        let now = sys::now();
        // The clock may be set back.
        let due = now.abs_diff(self.last_entry_ns) >= RESOLUTION_NS;
        if !due && self.lost == self.lost_told {
            return;
        }
        let entry = TimeEntry { offset: self.start + self.len, at_ns: now, lost: self.lost };
        let size = size_of::<TimeEntry>();
        if sys::pwrite(self.times, bytes_of(&entry), self.times_len) == Ok(size) {
            self.times_len += size as u64;
            (self.last_entry_ns, self.lost_told) = (now, self.lost);
        }
    }

    fn close_files(&mut self) {
        sys::close(self.file);
        sys::close(self.times);
        (self.file, self.times) = (sys::NONE, sys::NONE);
    }

    pub fn close(&mut self) {
        self.close_pipe();
        self.close_files();
    }

    pub fn close_pipe(&mut self) {
        sys::close(self.pipe);
        self.pipe = sys::NONE;
    }
}

/// `stdout.00000000000000000000` and, with `.t`, its index.
struct Name([u8; 32]);

impl Name {
    const DIGITS: usize = 20;
    const END: usize = 7 + Self::DIGITS;

    fn new(channel: u8, start: u64) -> Self {
        let mut name = [0; 32];
        name[..7].copy_from_slice(if channel == 0 { b"stdout." } else { b"stderr." });
        let mut rest = start;
        for digit in name[7..Self::END].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Self(name)
    }

    fn data(&mut self) -> &CStr {
        self.0[Self::END] = 0;
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }

    fn times(&mut self) -> &CStr {
        self.0[Self::END..Self::END + 3].copy_from_slice(b".t\0");
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}
