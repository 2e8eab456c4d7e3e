//! Lines to the stream they were written to, many at once where many are
//! there. A gap is said on stderr.

use jiff::Timestamp;
use strata_api::strata::v1::LogChannel;

use super::merge::Merged;
use crate::failure::{Peer, Result};
use crate::output::human;
use crate::session::Session;

/// How lines are to look.
pub(super) struct LineWriter {
    timestamps: bool,
    /// The name of each stream, where there are several.
    names: Vec<String>,
    width: usize,
}

impl LineWriter {
    pub(super) fn new(timestamps: bool, names: Vec<String>) -> Self {
        let width = names.iter().map(String::len).max().unwrap_or(0);
        Self {
            timestamps,
            names,
            width,
        }
    }

    /// Writes lines in their order; fails with the first that is an error.
    pub(super) fn write(
        &mut self,
        session: &mut Session,
        peer: &dyn Peer,
        what: &str,
        lines: Vec<Merged>,
    ) -> Result {
        let mut batch = Batch::default();
        for merged in lines {
            let (source, line) = match merged {
                Ok(line) => line,
                Err(status) => {
                    batch.flush(session)?;
                    return Err(peer.failure(&status, what));
                }
            };
            if line.lost_bytes > 0 {
                batch.flush(session)?;
                let lost = human::bytes(line.lost_bytes);
                let of = self
                    .names
                    .get(source)
                    .map_or(String::new(), |n| format!(" of {n}"));
                session.printer.warn(&format!("{lost}{of} were lost here"));
            }
            if line.is_gap {
                continue;
            }
            batch.switch(session, line.channel() == LogChannel::Stderr)?;
            self.prefix(&mut batch.bytes, source, line.written_at_ms);
            batch.bytes.extend_from_slice(&line.line);
            batch.bytes.push(b'\n');
        }
        batch.flush(session)
    }

    fn prefix(&self, bytes: &mut Vec<u8>, source: usize, written_at_ms: i64) {
        if let Some(name) = self.names.get(source) {
            let width = self.width;
            bytes.extend_from_slice(format!("{name:<width$} | ").as_bytes());
        }
        if self.timestamps {
            bytes.extend_from_slice(timestamp(written_at_ms).as_bytes());
            bytes.push(b' ');
        }
    }
}

/// RFC 3339 with milliseconds, always of the same width.
pub(super) fn timestamp(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| format!("{time:.3}"))
}

/// Lines for one of the two streams, collected so that they are written at
/// once, and in order with those for the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    stderr: bool,
}

impl Batch {
    fn switch(&mut self, session: &mut Session, stderr: bool) -> Result {
        if self.stderr != stderr {
            self.flush(session)?;
            self.stderr = stderr;
        }
        Ok(())
    }

    fn flush(&mut self, session: &mut Session) -> Result {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        if self.stderr {
            session.printer.data_err(&bytes)?;
        } else {
            session.printer.data(&bytes)?;
        }
        Ok(())
    }
}
