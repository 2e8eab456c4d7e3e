//! The daemon's own log: to standard error for the process that started it, and
//! into rotated files so that `Observe.GetAuraeDaemonLogStream` has a history
//! that survives restarts.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strata_cell::log::{Channel, SegmentWriter};
use tracing_subscriber::fmt::MakeWriter;

use crate::clock::now_ns;

/// At most this much is kept: eight files of two megabytes.
const SEGMENT_BYTES: u64 = 2 << 20;
const SEGMENTS: usize = 8;
/// What a pipe that has room takes without waiting.
const PIPE_PAGE: usize = 4096;

/// A writer for `tracing_subscriber`.
#[derive(Clone)]
pub struct DaemonLog {
    file: Arc<Mutex<SegmentWriter>>,
}

impl DaemonLog {
    /// Opens the log in `dir` and goes on where it ends.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let file = SegmentWriter::open(dir, Channel::Daemon, SEGMENT_BYTES, SEGMENTS)?;
        Ok(Self {
            file: Arc::new(Mutex::new(file)),
        })
    }
}

impl<'a> MakeWriter<'a> for DaemonLog {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            log: self.clone(),
            bytes: Vec::with_capacity(256),
        }
    }
}

/// One line in the making; written whole when it is dropped.
pub struct Line {
    log: DaemonLog,
    bytes: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A failure to write the log has nowhere to be reported. The reader of
        // our standard error may have stopped reading; the file is the record,
        // so the daemon does not wait for that reader.
        let stderr = io::stderr();
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut room = [PollFd::new(&stderr, PollFlags::OUT)];
        if matches!(poll(&mut room, Some(&now)), Ok(1)) {
            let _ = (&stderr).write_all(&self.bytes[..self.bytes.len().min(PIPE_PAGE)]);
        }
        let mut file = self.log.file.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = file.write(&self.bytes, now_ns());
    }
}
