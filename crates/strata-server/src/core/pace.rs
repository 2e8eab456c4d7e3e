//! How fast a node may report. An honest one sends a few messages a second, and
//! all it has at once when it comes back; one that was taken over sends as fast
//! as the network takes it, and every message is work for the server. It is not
//! refused: it is read more slowly, and what it sends waits on its side.
//!
//! Counted by node and not by stream, for it may open as many as it likes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Units over time. A message is one, and one more for each kibibyte.
const PER_SECOND: f64 = 4000.0;
/// Units at once after a rest: the reports of as many instances.
const BURST: f64 = 40_000.0;
const KIBIBYTE: usize = 1024;

#[derive(Debug)]
struct ReportPace {
    /// Below nothing while it has to wait.
    left: f64,
    at: Instant,
}

impl ReportPace {
    /// Takes a message of this size, and returns how long to wait before the
    /// next.
    fn spend(&mut self, bytes: usize, now: Instant) -> Duration {
        let rest = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + rest * PER_SECOND).min(BURST);
        self.at = now;
        let units = u32::try_from(1 + bytes / KIBIBYTE).unwrap_or(u32::MAX);
        self.left -= f64::from(units);
        match self.left < 0.0 {
            true => Duration::from_secs_f64(-self.left / PER_SECOND),
            false => Duration::ZERO,
        }
    }
}

/// The pace of every node that has spoken.
#[derive(Debug, Default)]
pub(crate) struct ReportPaces(Mutex<HashMap<String, ReportPace>>);

impl ReportPaces {
    /// A node sends a message of this size. How long it is not read for then.
    pub(crate) fn spend(&self, node: &str, bytes: usize) -> Duration {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pace) = all.get_mut(node) {
            return pace.spend(bytes, now);
        }
        let mut pace = ReportPace {
            left: BURST,
            at: now,
        };
        let wait = pace.spend(bytes, now);
        all.insert(node.to_owned(), pace);
        wait
    }

    pub(super) fn remove(&self, node: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_pace_allows_a_burst_and_no_flood() {
        let begin = Instant::now();
        let mut pace = ReportPace {
            left: BURST,
            at: begin,
        };
        let free = (0..1_000_000).take_while(|_| pace.spend(100, begin).is_zero());
        assert!((39_000..41_000).contains(&free.count()));
        // From then on by the clock, also where each message is large.
        let (mut now, mut said) = (begin, 0);
        while now < begin + Duration::from_secs(10) {
            now += pace.spend(1 << 20, now);
            said += 1;
        }
        assert!((30..60).contains(&said), "{said} MiB in ten seconds");
        let rested = now + Duration::from_secs(60);
        assert!(pace.spend(100, rested).is_zero());
    }

    #[test]
    fn nodes_do_not_wait_for_each_other() {
        let paces = ReportPaces::default();
        for _ in 0..100 {
            paces.spend("evil", 4 << 20);
        }
        assert!(paces.spend("evil", 0) > Duration::from_secs(10));
        assert!(paces.spend("honest", 0).is_zero());
    }
}
