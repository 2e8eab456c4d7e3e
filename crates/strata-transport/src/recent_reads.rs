//! Which callers were shown values of which path a moment ago. Reads are polled:
//! a line for each would fill the log and use up the budget of who polls, and
//! says no more than the first.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One line is for all reads of a path by a caller in this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);
/// Reads that are remembered; further ones have lines of their own.
const MAX_READS: usize = 4096;

/// A caller and a call.
type Read = (String, String);

#[derive(Debug, Default)]
pub(crate) struct RecentReads(Mutex<HashMap<Read, Instant>>);

impl RecentReads {
    /// Whether the read has a line already.
    pub(crate) fn is_known(&self, read: &Read) -> bool {
        self.is_known_at(read, Instant::now())
    }

    fn is_known_at(&self, read: &Read, now: Instant) -> bool {
        let reads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reads.get(read).is_some_and(|at| is_recent(*at, now))
    }

    /// The read has a line.
    pub(crate) fn note(&self, read: Read) {
        self.note_at(read, Instant::now());
    }

    fn note_at(&self, read: Read, now: Instant) {
        let mut reads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reads.len() >= MAX_READS {
            reads.retain(|_, at| is_recent(*at, now));
        }
        if reads.len() < MAX_READS {
            reads.insert(read, now);
        }
    }
}

fn is_recent(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < REPEAT_INTERVAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_is_known_for_a_while_and_to_one_caller() {
        let (reads, now) = (RecentReads::default(), Instant::now());
        let read = |caller: &str| (caller.to_owned(), "GET /instance/web".to_owned());
        reads.note_at(read("ada"), now);
        assert!(reads.is_known_at(&read("ada"), now));
        assert!(!reads.is_known_at(&read("bob"), now));
        assert!(!reads.is_known_at(&read("ada"), now + REPEAT_INTERVAL));
        for n in 0..2 * MAX_READS {
            reads.note_at(read(&n.to_string()), now);
        }
        assert_eq!(reads.0.lock().unwrap().len(), MAX_READS);
        reads.note_at(read("ada"), now + REPEAT_INTERVAL);
        assert_eq!(reads.0.lock().unwrap().len(), 1);
    }
}
