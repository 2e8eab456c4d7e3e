//! Rate and remaining time from how much was done when. Pure: the time is
//! passed in.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The rate is that of the last so long.
const SPAN: Duration = Duration::from_secs(10);
/// A mark is set at most this often, which bounds the memory.
const STEP: Duration = Duration::from_millis(250);
/// Before this no rate can be known.
const MIN_SPAN: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Meter {
    marks: VecDeque<(Instant, u64)>,
    last: (Instant, u64),
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            marks: VecDeque::from([(now, 0)]),
            last: (now, 0),
        }
    }

    /// So much is done by now.
    pub(crate) fn mark(&mut self, now: Instant, done: u64) {
        self.last = (now, done);
        let newest = self.marks.back().map_or(now, |mark| mark.0);
        if now.duration_since(newest) >= STEP {
            self.marks.push_back((now, done));
        }
        // One mark older than the span stays: the rate is measured from it.
        while self.marks.len() > 1 && now.duration_since(self.marks[1].0) >= SPAN {
            self.marks.pop_front();
        }
    }

    pub(crate) fn rate(&self) -> Option<u64> {
        let first = self.marks.front()?;
        let time = self.last.0.duration_since(first.0);
        if time < MIN_SPAN {
            return None;
        }
        let done = u128::from(self.last.1.saturating_sub(first.1));
        u64::try_from(done * 1000 / time.as_millis().max(1)).ok()
    }

    /// How long the rest takes at this rate.
    pub(crate) fn remaining(&self, total: u64) -> Option<Duration> {
        let rate = self.rate().filter(|rate| *rate > 0)?;
        let left = total.saturating_sub(self.last.1);
        Some(Duration::from_millis(
            left.saturating_mul(1000).checked_div(rate)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_steady_stream_has_its_rate_and_its_end() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        assert_eq!(meter.rate(), None);
        for second in 1..=30 {
            meter.mark(start + SECOND * second, u64::from(second) * 100);
        }
        assert_eq!(meter.rate(), Some(100));
        assert_eq!(meter.remaining(4000), Some(SECOND * 10));
        assert_eq!(meter.remaining(10), Some(Duration::ZERO));
    }

    #[test]
    fn old_samples_do_not_count_in_the_rate() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        meter.mark(start + SECOND, 1_000_000);
        for second in 2..=60 {
            meter.mark(start + SECOND * second, 1_000_000);
        }
        assert_eq!(meter.rate(), Some(0));
        assert_eq!(meter.remaining(2_000_000), None);
    }

    #[test]
    fn many_marks_take_little_memory() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        for tick in 0..100_000 {
            meter.mark(start + Duration::from_millis(tick), tick);
        }
        assert!(meter.marks.len() < 50, "{}", meter.marks.len());
        assert_eq!(meter.rate(), Some(1000));
    }
}
